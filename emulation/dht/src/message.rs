//! Messages, and the bytes that they would take.

use crate::geometry::{Circle, Contact};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Search,
    /// The upkeep of tables: joins, refreshes and probes.
    Upkeep,
}

/// A message from one node to another. Each begins with its kind, the number of the question, and the position
/// of its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DhtMessage {
    /// A question for nodes in an area, or near it.
    Find {
        question: u32,
        circle: Circle,
        purpose: Purpose,
    },
    Found {
        question: u32,
        contacts: Vec<Contact>,
        is_inside: bool,
        purpose: Purpose,
    },
    Ping {
        question: u32,
    },
    Pong {
        question: u32,
    },
}

const HEAD: usize = 1 + 4 + 8;
const CIRCLE: usize = 8 + 4;
/// Address with port, position, and two bytes of a number that tells restarts apart.
const CONTACT: usize = 6 + 8 + 2;
/// The record of what a node offers: name of the service, its form, its properties.
const RECORD: usize = 32;

impl DhtMessage {
    /// The bytes without any header of the network.
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Find { .. } => HEAD + CIRCLE,
            Self::Found { contacts, is_inside, .. } => {
                HEAD + 1 + contacts.len() * CONTACT + if *is_inside { RECORD } else { 0 }
            }
            Self::Ping { .. } | Self::Pong { .. } => HEAD,
        }
    }

    pub const fn purpose(&self) -> Purpose {
        match self {
            Self::Find { purpose, .. } | Self::Found { purpose, .. } => *purpose,
            Self::Ping { .. } | Self::Pong { .. } => Purpose::Upkeep,
        }
    }

    pub(crate) const fn question(&self) -> u32 {
        match self {
            Self::Find { question, .. }
            | Self::Found { question, .. }
            | Self::Ping { question }
            | Self::Pong { question } => *question,
        }
    }
}
