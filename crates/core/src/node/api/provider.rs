use roost_wire::{Address, NodeId};

/// A provider that the requester knows, from a lookup or an earlier request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    pub node: NodeId,
    /// May be empty if there is a connection with it.
    pub addresses: Vec<Address>,
}
