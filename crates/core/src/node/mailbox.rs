//! Files of the outbox that are left at the home, sealed, for receivers that cannot be reached; and sealed files that
//! hubs bring.
//!
//! A receiver that is there gets its file directly: the hub's room is scarce, and such a file would travel twice. One
//! that was looked for in vain may come when this node is gone, so its file is left at the home at once. The outbox goes
//! on as before, and believes nothing that a hub says of a file.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use roost_policy::Action;
use roost_wire::messages::{
    Capabilities, MAX_DELIVERY_S, MAX_SEALED_FILE_BYTES, MailboxMessage, MailboxState, MailboxStatus, SealedFile,
};
use roost_wire::{ConnectionId, DeliveryId, NodeId, RequestId, Role, Time};

use super::api::NodeEvent;
use super::core::Core;
use super::outbox::{AbsentFile, LeftAt, NodeOutbox, OutboxEvent};

/// The most files that are on their way to the home at once.
const MAX_LEAVING: usize = 8;

/// A file that could not be left is tried again.
const RETRY: Duration = Duration::from_secs(600);

/// A hub that has not answered is given the file again.
const ANSWER: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
enum LeftFile {
    Sealing,
    Sent { to: NodeId, at: Time },
    Kept { to: NodeId },
    Failed { why: String, at: Time },
}

/// Files by their place at the home; without a word of another hub, which may have them from before.
#[derive(Debug, Default)]
pub(super) struct NodeMailbox {
    hub: Option<NodeId>,
    files: BTreeMap<DeliveryId, LeftFile>,
}

impl NodeMailbox {
    /// Leaves what can be left, and asks the owner to seal it.
    pub(super) fn advance(&mut self, core: &mut Core, home: Option<ConnectionId>, outbox: &NodeOutbox) {
        let entry = home.and_then(|home| core.connections.get(home));
        let hub = entry.filter(|entry| entry.hello.capabilities.contains_all(Capabilities::MAILBOX));
        let Some(hub) = hub.filter(|hub| hub.role == Role::SuperNode).map(|hub| hub.node) else { return };
        if core.objection(Action::Send, None, None).is_some() {
            return;
        }
        if self.hub.replace(hub) != Some(hub) {
            self.files.clear();
        }
        let now = core.now;
        self.files.retain(|id, left| outbox.is_waiting(*id) && !left.is_over(now));
        let is_leaving = |left: &&LeftFile| matches!(left, LeftFile::Sealing | LeftFile::Sent { .. });
        let places = MAX_LEAVING.saturating_sub(self.files.values().filter(is_leaving).count());
        let absent = outbox.absent(now).filter(|file| !self.files.contains_key(&file.id));
        for file in absent.take(places).collect::<Vec<_>>() {
            self.files.insert(file.id, LeftFile::Sealing);
            let AbsentFile { id, tries, left } = file;
            core.emit(NodeEvent::Outbox(OutboxEvent::Leave { id, tries, left }));
        }
    }

    /// There is a home: it may be one that has started again and knows nothing.
    pub(super) fn on_attached(&mut self) {
        self.hub = None;
    }

    /// The owner has sealed a file, or cannot.
    pub(super) fn on_sealed(
        &mut self,
        core: &mut Core,
        home: Option<ConnectionId>,
        outbox: &mut NodeOutbox,
        id: DeliveryId,
        sealed: Result<(NodeId, Bytes), String>,
    ) {
        let Some(left) = self.files.get_mut(&id).filter(|left| matches!(left, LeftFile::Sealing)) else { return };
        let now = core.now;
        let (to, sealed) = match sealed {
            Ok((to, sealed)) if sealed.len() <= MAX_SEALED_FILE_BYTES => (to, sealed),
            Ok(_) => return *left = LeftFile::Failed { why: "it is too large for the home".to_owned(), at: now },
            Err(why) => return *left = LeftFile::Failed { why, at: now },
        };
        let (Some(home), Some(time)) = (home, outbox.count_offer(now, id)) else {
            self.files.remove(&id);
            return;
        };
        let left_s = u32::try_from(time.as_secs()).unwrap_or(MAX_DELIVERY_S).min(MAX_DELIVERY_S);
        *left = LeftFile::Sent { to, at: now };
        let file = SealedFile { from: core.node, to, id, left_s, sealed };
        core.send_reliably(home, RequestId(0), MailboxMessage::SealedFile(file));
    }

    /// A hub says what has become of a file of this node.
    pub(super) fn on_status(&mut self, core: &Core, connection: ConnectionId, status: MailboxStatus) {
        let hub = core.connections.get(connection).map(|entry| entry.node);
        if hub != self.hub || status.from != core.node {
            return;
        }
        let Some(left) = self.files.get_mut(&status.id) else { return };
        match (status.state, &*left) {
            (MailboxState::Kept, LeftFile::Sent { to, .. }) => *left = LeftFile::Kept { to: *to },
            (MailboxState::Full, LeftFile::Sent { .. } | LeftFile::Kept { .. }) => {
                *left = LeftFile::Failed { why: "the home has no room for it".to_owned(), at: core.now };
            }
            _ => {}
        }
    }

    /// A file has ended here: the home need not deliver it.
    pub(super) fn recall(&mut self, core: &mut Core, home: Option<ConnectionId>, id: DeliveryId) {
        let Some(LeftFile::Sent { to, .. } | LeftFile::Kept { to }) = self.files.remove(&id) else { return };
        let at_hub = home.filter(|home| core.connections.get(*home).map(|entry| entry.node) == self.hub);
        if let Some(home) = at_hub {
            let status = MailboxStatus { from: core.node, to, id, state: MailboxState::Ended };
            core.send_reliably(home, RequestId(0), MailboxMessage::MailboxStatus(status));
        }
    }

    pub(super) fn left_at(&self, id: DeliveryId) -> LeftAt {
        match self.files.get(&id) {
            Some(LeftFile::Kept { .. }) => LeftAt { hub: self.hub, obstacle: None },
            Some(LeftFile::Failed { why, .. }) => LeftAt { hub: None, obstacle: Some(why.clone()) },
            Some(LeftFile::Sealing | LeftFile::Sent { .. }) | None => LeftAt::default(),
        }
    }
}

impl LeftFile {
    fn is_over(&self, now: Time) -> bool {
        match self {
            Self::Sealing | Self::Kept { .. } => false,
            Self::Sent { at, .. } => now >= *at + ANSWER,
            Self::Failed { at, .. } => now >= *at + RETRY,
        }
    }
}

impl Core {
    /// A hub brings a file, which the owner opens. Nothing that the hub says of it is believed.
    pub(super) fn on_sealed_file(&mut self, connection: ConnectionId, file: SealedFile) {
        let hub = self.connections.get(connection).map(|entry| entry.node);
        match hub.filter(|_| file.to == self.node && file.from != self.node && file.left_s > 0) {
            Some(hub) => self.emit(NodeEvent::SealedFile { hub, file }),
            None => self.counters.refused += 1,
        }
    }

    /// The owner has taken a file that a hub has brought, or has not.
    pub(super) fn send_mailbox_status(&mut self, hub: NodeId, status: MailboxStatus) {
        if let Some(connection) = self.connections.youngest_with(hub) {
            self.send_reliably(connection, RequestId(0), MailboxMessage::MailboxStatus(status));
        }
    }
}
