//! The other end of a connection.

use crate::ids::NodeId;
use crate::service::Role;

/// Who is at the other end of a connection, as its certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteIdentity {
    /// Digest of its public key.
    pub node: NodeId,
    /// What it may act as.
    pub role: Role,
    /// The name that the operator gave it; for people only.
    pub name: String,
}
