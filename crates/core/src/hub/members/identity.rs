//! The identity of a member.

use roost_wire::{Address, NodeId};

/// A super node in one of its lives. Its addresses are what it says of itself
/// and do not tell one life from another.
#[derive(Clone, Debug)]
pub(super) struct MemberIdentity {
    pub(super) node: NodeId,
    /// Grows with every start of the super node, and when the others have
    /// taken it for dead by mistake.
    pub(super) generation: u32,
    pub(super) addresses: Vec<Address>,
}

impl MemberIdentity {
    /// An identity of which nothing but the name matters.
    pub(super) fn named(node: NodeId, generation: u32) -> Self {
        Self { node, generation, addresses: Vec::new() }
    }
}

impl PartialEq for MemberIdentity {
    fn eq(&self, other: &Self) -> bool {
        (self.node, self.generation) == (other.node, other.generation)
    }
}

impl Eq for MemberIdentity {}

impl foca::Identity for MemberIdentity {
    type Addr = NodeId;

    fn renew(&self) -> Option<Self> {
        Some(Self { generation: self.generation.checked_add(1)?, ..self.clone() })
    }

    fn addr(&self) -> NodeId {
        self.node
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.generation > adversary.generation
    }
}
