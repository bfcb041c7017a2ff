//! Files that hubs bring, sealed by nodes that may be gone.

use std::sync::Arc;

use roost_core::node::NodeCommand;
use roost_identity::{FileContent, SealError, SealedFor};
use roost_wire::messages::{DeliveryTerms, MailboxState, MailboxStatus, Push, PushState, SealedFile};
use roost_wire::{NodeId, RequestId};
use sha2::{Digest, Sha256};

use super::{Inbox, InboxService};

impl InboxService {
    /// Opens a file that a hub brings, judges its sender, takes it or refuses it, and tells the hub.
    pub(crate) async fn receive_sealed(self, hub: NodeId, file: SealedFile) {
        let SealedFile { from, to, id, left_s, sealed } = file;
        let reception = match self.shared.open_file(&SealedFor { from, to, id }, &sealed) {
            Ok((sender, content)) => {
                let judging = self.mailbox.inspect(move |node, _| node.admits_file_of(&sender)).await;
                match (judging, &self.inbox) {
                    // The daemon ends.
                    (Err(_), _) => return,
                    (Ok(false), _) => PushState::Forbidden,
                    (Ok(true), None) => PushState::NoInbox,
                    (Ok(true), Some(inbox)) => {
                        let terms = DeliveryTerms { id, until_s: content.until_s, left_s };
                        inbox.take_sealed(from, terms, content).await
                    }
                }
            }
            Err(error) => {
                if let Some(suppressed) = self.refusals.admit() {
                    let hub = self.names.who(&self.shared, hub);
                    tracing::warn!(hub, %error, suppressed, "a hub has brought a file that is refused");
                }
                // Newer documents of the group, or a right clock, may allow the sender.
                if matches!(error, SealError::Sender(_)) { PushState::Forbidden } else { PushState::Damaged }
            }
        };
        if reception == PushState::Stored {
            tracing::info!(from = self.names.who(&self.shared, from), %id, "a file has come, which a hub had kept");
        }
        let status = MailboxStatus { from, to, id, state: state_of(reception) };
        let _ = self.mailbox.command(NodeCommand::SealedFileEnded { hub, status }).await;
    }
}

/// The word to the hub: it forgets the file unless another time may be better.
const fn state_of(reception: PushState) -> MailboxState {
    match reception {
        // Newer documents of the group may allow it.
        PushState::Forbidden => MailboxState::Later,
        PushState::NoRoom | PushState::Busy | PushState::Interrupted | PushState::Unwritable => MailboxState::Later,
        _ => MailboxState::Ended,
    }
}

impl Inbox {
    /// Takes a file that is here as a whole, under the same receipts as one that is sent.
    async fn take_sealed(self: &Arc<Self>, from: NodeId, terms: DeliveryTerms, content: FileContent) -> PushState {
        let FileContent { name, bytes, .. } = content;
        let push = Push {
            id: RequestId(0),
            name,
            bytes: bytes.len() as u64,
            digest: Sha256::digest(&bytes).into(),
            addresses: Vec::new(),
            delivery: Some(terms),
        };
        let mut incoming = match self.admit(from, &push).await {
            Ok(incoming) => incoming,
            Err(reception) => return reception,
        };
        let come = usize::try_from(incoming.come()).unwrap_or(bytes.len()).min(bytes.len());
        if let Err(reception) = incoming.add(&bytes[come..]).await {
            return reception;
        }
        incoming.store(&push.name).await
    }
}
