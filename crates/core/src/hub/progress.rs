//! Numbers of nodes, for each hub, that hold the newest documents of the group.
//!
//! A hub counts its own nodes and tells all hubs, which pass it on, so that any hub can say it of all. It is for
//! people alone: nothing is decided by it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_wire::messages::{DocumentKind, DocumentMessage, HubProgress, MAX_PROGRESS_ROWS};
use roost_wire::{NodeId, Time};

use super::core::HubCore;
use super::registry::Records;
use crate::machine::Traffic;

/// Between two countings of the own nodes.
const COUNT_PAUSE: Duration = Duration::from_secs(1);

/// Wait for more rows before they are passed on.
const PASS_ON_PAUSE: Duration = Duration::from_millis(500);

/// Between two countings while nodes are behind, since their leases end without a message.
const RECOUNT_PAUSE: Duration = Duration::from_secs(5);

/// Rows are said again after this time, and forgotten [`MAX_AGE`] after they were heard last.
const REFRESH: Duration = Duration::from_secs(600);
const MAX_AGE: Duration = Duration::from_secs(1_800);

const MAX_ROWS: usize = 256;

/// A row from so far ahead of the own clock would keep out all later ones.
const MAX_AHEAD_S: u64 = 24 * 60 * 60;

type RowKey = (NodeId, DocumentKind);

#[derive(Debug)]
struct Row {
    progress: HubProgress,
    heard: Time,
}

#[derive(Debug, Default)]
pub(super) struct ProgressTable {
    rows: BTreeMap<RowKey, Row>,
    /// Rows to pass on, each to all but the hub that said it.
    unsent: BTreeMap<RowKey, Option<NodeId>>,
    /// Hubs that have come: they are told all rows.
    newcomers: BTreeSet<NodeId>,
    count_at: Option<Time>,
    send_at: Option<Time>,
}

impl ProgressTable {
    pub(super) fn next_due(&self) -> Option<Time> {
        [self.count_at, self.send_at].into_iter().flatten().min()
    }

    /// Something has changed: the own nodes are counted soon.
    pub(super) fn count_soon(&mut self, core: &HubCore) {
        let soon = core.now + COUNT_PAUSE;
        if !core.documents.holdings().is_empty() && self.count_at.is_none_or(|at| at > soon) {
            self.count_at = Some(soon);
        }
    }

    pub(super) fn on_hub_connected(&mut self, core: &HubCore, hub: NodeId) {
        if !self.rows.is_empty() {
            self.newcomers.insert(hub);
            self.send_soon(core.now);
        }
    }

    /// Rows of other hubs about a kind of document.
    pub(super) fn of_others(&self, core: &HubCore, kind: DocumentKind) -> impl Iterator<Item = &HubProgress> {
        let own = core.config.node;
        self.rows.values().map(|row| &row.progress).filter(move |row| row.hub != own && row.kind == kind)
    }

    /// Counts the own nodes, and tells other hubs, if it is time.
    pub(super) fn poll(&mut self, core: &mut HubCore, records: Records<'_>) {
        if self.count_at.is_some_and(|at| at <= core.now) {
            self.count(core, records);
        }
        if self.send_at.is_some_and(|at| at <= core.now) {
            self.send_at = None;
            self.send(core);
        }
    }

    fn send_soon(&mut self, now: Time) {
        self.send_at.get_or_insert(now + PASS_ON_PAUSE);
    }

    /// Another hub tells of itself and of others.
    pub(super) fn on_rows(&mut self, core: &HubCore, from: NodeId, rows: Vec<HubProgress>) {
        let latest = core.wall_clock.map(|clock| clock.unix_s(core.now).saturating_add(MAX_AHEAD_S));
        for progress in rows {
            let key = (progress.hub, progress.kind);
            let held = self.rows.get(&key);
            let is_newer = held.is_none_or(|row| row.progress.said_s < progress.said_s);
            let has_room = held.is_some() || self.rows.len() < MAX_ROWS;
            let is_possible = progress.kind.name().is_some() && latest.is_none_or(|latest| progress.said_s <= latest);
            if is_newer && has_room && is_possible && progress.hub != core.config.node {
                self.rows.insert(key, Row { progress, heard: core.now });
                self.unsent.insert(key, Some(from));
                self.send_soon(core.now);
            }
        }
    }

    fn count(&mut self, core: &HubCore, records: Records<'_>) {
        let is_behind =
            |node: &NodeId| core.documents.holdings().iter().any(|(kind, _)| !core.documents.is_current(*node, kind));
        let pause = if own_nodes(records).any(|node| is_behind(&node)) { RECOUNT_PAUSE } else { REFRESH };
        self.count_at = Some(core.now + pause);
        self.rows.retain(|(hub, _), row| *hub == core.config.node || core.now.since(row.heard) < MAX_AGE);
        for (kind, number) in core.documents.holdings().iter() {
            let nodes = own_nodes(records).count() as u32;
            let behind = own_nodes(records).filter(|node| !core.documents.is_current(*node, kind)).count() as u32;
            let (hub, name) = (core.config.node, core.config.name.clone());
            let before = self.rows.get(&(hub, kind));
            let said = |row: &Row| (row.progress.number, row.progress.behind) == (number, behind);
            if before.is_some_and(|row| said(row) && core.now.since(row.heard) < REFRESH) {
                continue;
            }
            let clock_s = core.wall_clock.map_or(core.now.as_micros() / 1_000_000, |clock| clock.unix_s(core.now));
            let said_s = before.map_or(clock_s, |row| clock_s.max(row.progress.said_s + 1));
            let progress = HubProgress { hub, name, said_s, kind, number, nodes, behind };
            self.rows.insert((hub, kind), Row { progress, heard: core.now });
            self.unsent.insert((hub, kind), None);
            self.send_at = Some(core.now);
        }
    }

    /// Tells other hubs the rows that they have not heard.
    fn send(&mut self, core: &mut HubCore) {
        let (unsent, newcomers) = (std::mem::take(&mut self.unsent), std::mem::take(&mut self.newcomers));
        for hub in core.remotes.hubs().collect::<Vec<_>>() {
            let is_new = newcomers.contains(&hub);
            let rows = self.rows.iter().filter(|(key, row)| {
                let is_unsent = unsent.get(key).is_some_and(|said_by| *said_by != Some(hub));
                row.progress.hub != hub && (is_new || is_unsent)
            });
            let rows: Vec<HubProgress> = rows.map(|(_, row)| row.progress.clone()).collect();
            for rows in rows.chunks(MAX_PROGRESS_ROWS) {
                core.send_to(hub, Traffic::Documents, DocumentMessage::Progress(rows.to_vec()));
            }
        }
    }
}

/// Nodes that have their home here, also those that are silent just now.
pub(super) fn own_nodes(records: Records<'_>) -> impl Iterator<Item = NodeId> {
    let nodes = records.directory().entries_after(None).map(|entry| entry.node());
    nodes.filter(move |node| records.home_of(*node).is_none())
}
