//! The data received from each member, and its output.

use std::collections::BTreeMap;
use std::time::Instant;

use roost_api::{Connections, Member};
use roost_terminal::{Output, SCHEMA, Table};
use roost_wire::{Cell, NodeId, Service};
use serde::Serialize;

use super::super::{bytes, seconds};
use super::outputs::MemberStream;
use crate::failure::Outcome;

/// The most members that are remembered. A room has at most 64 at a time; of those beyond, who have come and left,
/// nothing is received.
const REMEMBERED: usize = 4_096;

/// An event of a room, as JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum RoomEvent<'a> {
    Joined(&'a Member),
    /// A member has another cell or other offers.
    Changed(&'a Member),
    Left {
        node: String,
        name: Option<String>,
    },
    Receiving {
        node: String,
        name: Option<String>,
        service: String,
        to: Option<String>,
        reflected: bool,
    },
    /// A stream has not begun, or no longer comes.
    Broken {
        node: String,
        name: Option<String>,
        service: String,
        message: String,
        again_in_s: Option<f64>,
    },
    /// The totals of all members; the last event.
    Report {
        room: &'a str,
        members: Vec<MemberStreamRow>,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    #[serde(flatten)]
    happening: RoomEvent<'a>,
}

pub(super) fn print(happening: RoomEvent<'_>, output: Output) -> Outcome {
    Ok(output.json(&Line { schema: SCHEMA, happening })?)
}

/// A member's stream, or a member without one.
#[derive(Serialize)]
pub(super) struct MemberStreamRow {
    node: String,
    #[serde(skip)]
    short: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    cell: String,
    service: Option<String>,
    bytes: u64,
    lost: u64,
    /// Seconds since the stream began; without a stream, since the member entered.
    since_s: f64,
    /// True while the member is in the room.
    present: bool,
    to: Option<String>,
}

/// All members since this node entered.
#[derive(Default)]
pub(super) struct RoomTotals(BTreeMap<NodeId, MemberTotals>);

struct MemberTotals {
    name: Option<String>,
    cell: Cell,
    since: Instant,
    present: bool,
    streams: BTreeMap<Service, StreamTotals>,
}

#[derive(Default)]
pub(super) struct StreamTotals {
    pub(super) since: Option<Instant>,
    pub(super) to: Option<String>,
    pub(super) bytes: u64,
    pub(super) lost: u64,
}

impl RoomTotals {
    /// Notes that a member is present. Returns false if [`REMEMBERED`] members are known already.
    pub(super) fn present(&mut self, member: &Member) -> bool {
        if self.0.len() >= REMEMBERED && !self.0.contains_key(&member.node) {
            return false;
        }
        let (cell, since, streams) = (member.cell, Instant::now(), BTreeMap::new());
        let new = || MemberTotals { name: None, cell, since, present: true, streams };
        let totals = self.0.entry(member.node).or_insert_with(new);
        (totals.cell, totals.present) = (member.cell, true);
        totals.name = member.name.clone().or_else(|| totals.name.take());
        true
    }

    pub(super) fn gone(&mut self, node: NodeId) {
        if let Some(totals) = self.0.get_mut(&node) {
            totals.present = false;
        }
    }

    /// The stream of a present or past member.
    pub(super) fn stream(&mut self, (node, service): MemberStream) -> Option<&mut StreamTotals> {
        self.0.get_mut(&node).map(|totals| totals.streams.entry(service).or_default())
    }

    /// All members, with the names that are known.
    pub(super) fn rows(&self, connections: Option<&Connections>) -> Vec<MemberStreamRow> {
        let name =
            |node| Some(connections?.connections.iter().find(|connection| connection.node == node)?.name.clone());
        let row = |node: NodeId, totals: &MemberTotals, stream: Option<(&Service, &StreamTotals)>| MemberStreamRow {
            node: node.to_string(),
            short: format!("{node:?}"),
            name: name(node).or_else(|| totals.name.clone()),
            cell: totals.cell.to_string(),
            service: stream.map(|(service, _)| service.to_string()),
            bytes: stream.map_or(0, |(_, came)| came.bytes),
            lost: stream.map_or(0, |(_, came)| came.lost),
            since_s: stream.and_then(|(_, came)| came.since).unwrap_or(totals.since).elapsed().as_secs_f64(),
            present: totals.present,
            to: stream.and_then(|(_, came)| came.to.clone()),
        };
        let of = |(node, totals): (&NodeId, &MemberTotals)| {
            let streams: Vec<MemberStreamRow> =
                totals.streams.iter().map(|stream| row(*node, totals, Some(stream))).collect();
            if streams.is_empty() { vec![row(*node, totals, None)] } else { streams }
        };
        self.0.iter().flat_map(of).collect()
    }
}

pub(super) fn table(rows: &[MemberStreamRow]) -> Table {
    let mut table = Table::new(&["NAME", "NODE", "CELL", "SERVICE", ">RECEIVED", ">LOST", "SINCE", "TO"]);
    for row in rows {
        let left = if row.present { "" } else { ", has left" };
        table.row([
            row.name.clone().unwrap_or_else(|| "-".to_owned()),
            row.short.clone(),
            row.cell.clone(),
            row.service.clone().unwrap_or_else(|| "-".to_owned()),
            bytes(row.bytes),
            row.lost.to_string(),
            format!("{}{left}", seconds(row.since_s)),
            row.to.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}
