//! The holder of a certificate. Its text is `roost:GROUP:ROLE:NAME`; labels stand elsewhere in the certificate.

use std::fmt;

use roost_wire::node_selector::is_node_name;
use roost_wire::{Labels, Role};

/// The longest name of a group or a node, in bytes.
pub const MAX_NAME_BYTES: usize = roost_wire::messages::MAX_NAME_BYTES;

/// The text is not a valid name of a group or a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a name: use 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first")]
pub struct NameError(String);

/// Accepts a name that is safe in a URI, a file name and a log line.
pub(crate) fn check_name(text: &str) -> Result<(), NameError> {
    if is_node_name(text) { Ok(()) } else { Err(NameError(text.to_owned())) }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) group: String,
    pub(crate) role: Role,
    pub(crate) name: String,
    pub(crate) labels: Labels,
}

impl Subject {
    /// Parses the one subject alternative name. `None` unless `uri` has exactly the form `roost:GROUP:ROLE:NAME` with valid names.
    pub(crate) fn parse(uri: &str) -> Option<Self> {
        let mut parts = uri.strip_prefix("roost:")?.split(':');
        let (group, role, name) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        check_name(group).ok()?;
        check_name(name).ok()?;
        let (group, name, labels) = (group.to_owned(), name.to_owned(), Labels::default());
        Some(Self { group, role: role.parse().ok()?, name, labels })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "roost:{}:{}:{}", self.group, self.role, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_round_trips() {
        let (group, name, labels) = ("alpha".into(), "sn-1.west_2".into(), Labels::default());
        let subject = Subject { group, role: Role::SuperNode, name, labels };
        assert_eq!(Subject::parse(&subject.to_string()), Some(subject));
    }

    #[test]
    fn anything_else_is_no_subject() {
        for uri in [
            "",
            "roost:",
            "roost:a:node",
            "roost:a:node:",
            "roost::node:b",
            "roost:a:king:b",
            "roost:a:Node:b",
            "roost:a:node:b:c",
            "Roost:a:node:b",
            " roost:a:node:b",
            "roost:a:node:b c",
            "roost:a:node:b\0",
        ] {
            assert_eq!(Subject::parse(uri), None, "{uri}");
        }
    }

    #[test]
    fn names_are_checked() {
        for name in ["a", "7", "uav-7.west_2", &"n".repeat(64)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "-h", "a/b", "a b", "ü", "a:b", &"n".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
