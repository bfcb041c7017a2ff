//! The roles that certificates give.

use std::fmt;
use std::str::FromStr;

/// The part that a certificate lets its holder play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Role {
    Node = 0,
    SuperNode = 1,
    Server = 2,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Node, Self::SuperNode, Self::Server];

    /// The role's name in certificates, on the command line and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::SuperNode => "supernode",
            Self::Server => "server",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Self::SuperNode => "super node",
            Self::Node | Self::Server => self.name(),
        }
    }

    pub const fn is_hub(self) -> bool {
        matches!(self, Self::SuperNode | Self::Server)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown role {0:?}: expected node, supernode or server")]
pub struct ParseRoleError(String);

impl FromStr for Role {
    type Err = ParseRoleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|role| role.name() == text).ok_or_else(|| ParseRoleError(text.to_owned()))
    }
}

/// A set of roles: whom a listener admits, or whom a dialler expects.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct RoleSet(u8);

impl RoleSet {
    pub const EMPTY: Self = Self(0);
    pub const ALL: Self = Self(0b111);

    /// The set with one role in it.
    pub const fn only(role: Role) -> Self {
        Self::EMPTY.with(role)
    }

    #[must_use]
    pub const fn with(self, role: Role) -> Self {
        Self(self.0 | 1 << role as u8)
    }

    pub const fn contains(self, role: Role) -> bool {
        self.0 & 1 << role as u8 != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.contains(*role))
    }
}

impl fmt::Debug for RoleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Role::name)).finish()
    }
}
