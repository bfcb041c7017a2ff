//! The greatest distance of a request from its requester.

use std::fmt;
use std::str::FromStr;

use minicbor::Encode;

use crate::open::open;

/// The greatest distance of a provider from the requester. A node that flies low asks one hop away and spares
/// the rest of the network the question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode)]
#[cbor(index_only)]
pub enum Scope {
    /// In one cell: the one that is asked for, or the requester's own.
    #[n(0)]
    Cell,
    /// In the requester's own subnet, by multicast; no hub is asked.
    #[n(1)]
    Subnet,
    /// Among the nodes of the requester's home hub.
    #[n(2)]
    Home,
    /// Among the nodes below the home's parent; of a home without a parent,
    /// those below itself.
    #[n(3)]
    Area,
    /// Everywhere.
    #[n(4)]
    #[default]
    Anywhere,
}

open!(Scope, [Cell, Subnet, Home, Area, Anywhere], else Home);

impl Scope {
    /// All scopes, the narrowest first.
    pub const ALL: [Self; 5] = [Self::Cell, Self::Subnet, Self::Home, Self::Area, Self::Anywhere];

    /// The scope's name in flags and queries.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cell => "cell",
            Self::Subnet => "subnet",
            Self::Home => "home",
            Self::Area => "area",
            Self::Anywhere => "anywhere",
        }
    }

    /// True if a node may serve whatever its home is. Otherwise a hub offers its
    /// own nodes and those below it, and asks no hub of its own rank.
    pub const fn admits_any_home(self) -> bool {
        matches!(self, Self::Cell | Self::Anywhere)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope {0:?}: expected cell, subnet, home, area or anywhere")]
pub struct ParseScopeError(String);

impl FromStr for Scope {
    type Err = ParseScopeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|scope| scope.name() == text).ok_or_else(|| ParseScopeError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_parses_from_its_name() {
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        assert!("world".parse::<Scope>().is_err());
        assert_eq!(Scope::default(), Scope::Anywhere);
    }
}
