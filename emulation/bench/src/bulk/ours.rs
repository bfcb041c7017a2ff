//! An endless object by `quic://`, in reliable messages of one flow.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_identity::Identity;
use roost_wire::{Address, Congestion, Endpoint, Scheme};

use super::arrivals::ByteArrivals;
use super::{BulkFlow, LOOK};
use crate::transport::OverlayEndpoint;

/// In bytes.
const MESSAGE: usize = 60_000;
/// The interval at which a full sender checks for room.
const NO_ROOM: Duration = Duration::from_millis(1);
/// The time after which a dial without an end is repeated.
const AGAIN: Duration = Duration::from_secs(2);

fn open(
    flow: &BulkFlow<'_>,
    identity: &Arc<Identity>,
    at: Ipv4Addr,
    control: Congestion,
) -> io::Result<OverlayEndpoint> {
    let (hosts, congestion) = (vec![at.to_string()], Some(control));
    OverlayEndpoint::open(identity, Endpoint { scheme: Scheme::Quic, hosts, port: flow.port, congestion })
}

pub(super) fn send(
    flow: &BulkFlow<'_>,
    identity: &Arc<Identity>,
    (from, to): (Ipv4Addr, Ipv4Addr),
    congestion: Congestion,
) -> io::Result<()> {
    let mut end = open(flow, identity, from, congestion)?;
    let message = Bytes::from(vec![7; MESSAGE]);
    let mut dialled: Option<Instant> = None;
    while !flow.is_over() {
        if !end.is_connected() && dialled.is_none_or(|at| at.elapsed() > AGAIN) {
            end.start_dial(Address { scheme: Scheme::Quic, port: flow.port, hosts: vec![to.into()] });
            dialled = Some(Instant::now());
        }
        match end.take_events(Instant::now() + NO_ROOM) {
            // The receiver does not listen yet.
            Err(_) if !end.is_connected() => dialled = None,
            other => other?,
        }
        while end.is_connected() && end.try_send(&message)? {}
    }
    Ok(())
}

pub(super) fn receive(
    flow: &BulkFlow<'_>,
    identity: &Arc<Identity>,
    at: Ipv4Addr,
    congestion: Congestion,
    arrivals: &ByteArrivals,
) -> io::Result<()> {
    let mut end = open(flow, identity, at, congestion)?;
    let mut bytes = 0;
    while !flow.is_over() {
        end.take_events(Instant::now() + LOOK)?;
        bytes += end.frames.drain(..).map(|message| message.len() as u64).sum::<u64>();
        arrivals.record_bytes(bytes);
    }
    Ok(())
}
