//! Congestion control that can be told to let probes pass.
//!
//! The window of a path that fell silent is full of packets that will never be acknowledged, and QUIC's own probes
//! become rarer and rarer. So while a path is probed, its window is widened: the first heartbeat that gets through
//! shows that the path answers again.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use quinn::congestion::{Controller, ControllerFactory};
use quinn_proto::RttEstimator;
use roost_wire::Congestion;

use super::congestion;

/// The bytes by which a probed path's window is widened: a thousand heartbeats, each of which counts as under way until
/// the path answers. It is no more, because a connection's only path carries data through this room too.
const ROOM: u64 = 64 << 10;

/// Makes the congestion control of one QUIC connection.
#[derive(Clone, Debug)]
pub(super) struct Probing {
    congestion: Congestion,
    on: Arc<AtomicBool>,
}

impl Probing {
    pub(super) fn new(congestion: Congestion) -> Self {
        Self { congestion, on: Arc::default() }
    }

    /// Lets probes pass, or stops doing so.
    pub(super) fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// The bytes by which the window is wider than the congestion control says.
    pub(super) fn room(&self) -> u64 {
        if self.on.load(Ordering::Relaxed) { ROOM } else { 0 }
    }
}

impl ControllerFactory for Probing {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let inner = congestion::controller(self.congestion, now, mtu);
        Box::new(Widened { inner, probing: self })
    }
}

struct Widened {
    inner: Box<dyn Controller>,
    probing: Arc<Probing>,
}

impl fmt::Debug for Widened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inner, probing } = self;
        f.debug_struct("Widened").field("window", &inner.window()).field("probing", probing).finish_non_exhaustive()
    }
}

impl Controller for Widened {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.inner.on_congestion_event(now, sent, is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.inner.on_mtu_update(mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window() + self.probing.room()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), probing: Arc::clone(&self.probing) })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
