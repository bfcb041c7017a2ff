//! Sealed files that wait here for nodes, in memory: their senders have them on disk.
//!
//! A file goes to its receiver when that connects, one after the other, and is forgotten once the receiver says that it
//! needs it no more. A sibling that is the receiver's home, or becomes it, gets the file instead. The hub reads nothing
//! of a file and proves nothing of it; the receiver does.

mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use roost_wire::messages::{Capabilities, MailboxMessage, MailboxState, MailboxStatus, SealedFile};
use roost_wire::{NodeId, Role, Time};

use super::core::HubCore;
use super::sender::Sender;
use super::{HubKind, HubLimit};
use crate::machine::Traffic;
use table::{FileKey, FileOwner, FileTable, MAX_BYTES, MAX_BYTES_OF_SENDER, key_of};

/// A receiver that has not answered is given the file again.
const RETRY: Duration = Duration::from_secs(60);

/// A receiver that did not take a file is given the next one.
const LATER: Duration = Duration::from_secs(5);

/// The most receivers of which a sibling hears when it connects.
const MAX_TOLD: usize = 256;

/// The price of a file to a node.
const COST: u32 = 1;

/// A node for which there are files.
#[derive(Clone, Copy, Debug, Default)]
struct FileReceiver {
    /// Time of the next try; `None` while there is no way to it.
    next: Option<Time>,
    /// The sibling that is the node's home, if one has said so.
    home: Option<NodeId>,
}

#[derive(Debug, Default)]
pub(super) struct HubMailbox {
    files: FileTable,
    receivers: BTreeMap<NodeId, FileReceiver>,
    due: Option<Time>,
}

impl HubMailbox {
    pub(super) fn on_file(&mut self, core: &mut HubCore, from: Sender, file: SealedFile) {
        let is_own = from.role.is_hub() || file.from == from.node && file.to != from.node;
        if core.config.kind != HubKind::SuperNode || !is_own {
            return core.refused(from.node, "it leaves a file that is not its own");
        }
        let (now, key) = (core.now, key_of(&file));
        let remote = core.remotes.get_mut(from.node);
        let may_ask = from.role.is_hub() || remote.is_some_and(|remote| remote.try_charge(now, COST));
        let most_bytes = if from.role.is_hub() { MAX_BYTES } else { MAX_BYTES_OF_SENDER };
        let owner = FileOwner { node: from.node, most_bytes };
        let kept = if may_ask && file.left_s > 0 { self.files.keep(now, owner, file) } else { None };
        let Some(gone) = kept else {
            core.over_limit(from.node, HubLimit::Mailbox);
            return send_state(core, from.node, key, MailboxState::Full);
        };
        core.counters.mailbox_kept += 1;
        send_state(core, from.node, key, MailboxState::Kept);
        for (owner, key) in gone {
            core.over_limit(owner, HubLimit::Mailbox);
            send_state(core, owner, key, MailboxState::Full);
        }
        let is_new = !self.receivers.contains_key(&key.0);
        self.receivers.entry(key.0).or_default().next.get_or_insert(now);
        if is_new && !from.role.is_hub() {
            for hub in core.siblings_up().filter(|hub| has_mailbox(core, *hub)).collect::<Vec<_>>() {
                core.send_to_hub(hub, MailboxMessage::FilesWait(key.0));
            }
        }
        self.poll(core);
    }

    /// The receiver wants no more of a file; the next one goes at once, but not for a word about no file.
    fn on_ended(&mut self, core: &mut HubCore, key: FileKey) {
        if self.files.remove(key) {
            core.counters.mailbox_delivered += 1;
            self.try_at(key.0, core.now);
        }
    }

    /// A receiver, a sender or a sibling says what has become of a file.
    pub(super) fn on_status(&mut self, core: &mut HubCore, from: Sender, status: MailboxStatus) {
        let (now, key) = (core.now, (status.to, status.from, status.id));
        let home = self.receivers.get(&key.0).and_then(|receiver| receiver.home);
        match status.state {
            MailboxState::Ended if status.to == from.node => self.on_ended(core, key),
            MailboxState::Ended if self.files.is_owned(key, from.node) => drop(self.files.remove(key)),
            MailboxState::Later if status.to == from.node => self.try_at(key.0, now + LATER),
            MailboxState::Kept if home == Some(from.node) => {
                core.counters.mailbox_handed += u64::from(self.files.remove(key));
                self.try_at(key.0, now);
            }
            _ => {}
        }
        self.poll(core);
    }

    fn try_at(&mut self, to: NodeId, at: Time) {
        if let Some(receiver) = self.receivers.get_mut(&to) {
            receiver.next = Some(at);
        }
    }

    /// A sibling is the home of a node.
    pub(super) fn on_home(&mut self, core: &mut HubCore, node: NodeId, home: NodeId) {
        if let Some(receiver) = self.receivers.get_mut(&node) {
            *receiver = FileReceiver { next: Some(core.now), home: Some(home) };
            self.poll(core);
        }
    }

    /// A remote has said that it knows of mailboxes.
    pub(super) fn on_greeted(&mut self, core: &mut HubCore, from: Sender) {
        if !has_mailbox(core, from.node) {
            return;
        }
        if from.role == Role::Node {
            if let Some(receiver) = self.receivers.get_mut(&from.node) {
                *receiver = FileReceiver { next: Some(core.now), home: None };
                self.poll(core);
            }
            return;
        }
        for node in self.receivers.keys().take(MAX_TOLD) {
            core.send_to_hub(from.node, MailboxMessage::FilesWait(*node));
        }
    }

    pub(super) fn poll(&mut self, core: &mut HubCore) {
        core.counters.mailbox_expired += self.files.expire(core.now);
        let files = &self.files;
        self.receivers.retain(|node, _| files.has_for(*node));
        for (node, receiver) in &mut self.receivers {
            if receiver.next.is_none_or(|at| at > core.now) {
                continue;
            }
            let ways = [Some(*node), receiver.home];
            let way = ways.into_iter().flatten().find(|remote| has_mailbox(core, *remote));
            let file = way.and_then(|way| Some((way, self.files.next_for(core.now, *node)?)));
            receiver.next = file.is_some().then(|| core.now + RETRY);
            if let Some((way, file)) = file {
                core.send_to(way, Traffic::Payload, MailboxMessage::SealedFile(file));
            }
        }
        let tries = self.receivers.values().filter_map(|receiver| receiver.next);
        self.due = tries.chain(self.files.first_end()).min();
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.due
    }

    /// The files that wait, and their bytes.
    pub(super) fn load(&self) -> (usize, usize) {
        self.files.load()
    }
}

/// True if a remote is connected and knows of mailboxes.
fn has_mailbox(core: &HubCore, node: NodeId) -> bool {
    let connections = core.remotes.connections_of(node).iter();
    let mut greeted = connections.filter_map(|connection| core.remotes.connections.get(connection));
    greeted.any(|connection| connection.hello.capabilities.contains_all(Capabilities::MAILBOX))
}

fn send_state(core: &mut HubCore, remote: NodeId, key: FileKey, state: MailboxState) {
    let (to, from, id) = key;
    core.send_to(remote, Traffic::Lookup, MailboxMessage::MailboxStatus(MailboxStatus { from, to, id, state }));
}

#[cfg(test)]
mod tests;
