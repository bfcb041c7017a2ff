//! Who has sent the message in hand.

use roost_wire::{ConnectionId, NodeId, Role};

#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) connection: ConnectionId,
    pub(super) node: NodeId,
    pub(super) role: Role,
}
