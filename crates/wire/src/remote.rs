//! The identity at the other end of a connection.

use crate::ids::NodeId;
use crate::labels::Labels;
use crate::role::Role;

/// The identity at the other end of a connection, from its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteIdentity {
    /// The digest of the public key in its certificate.
    pub node: NodeId,
    pub role: Role,
    /// The name that the operator gave it. Rules of a policy tell members apart by it; the rest shows it to people.
    pub name: String,
    pub labels: Labels,
}
