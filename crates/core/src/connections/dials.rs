//! Dials under way.

use std::collections::BTreeMap;

use roost_wire::{Address, DialId, NodeId, Role, RoleSet};

use crate::machine::Transmit;

/// Dials under way, and the purpose of each.
#[derive(Debug)]
pub(crate) struct Dials<P> {
    under_way: BTreeMap<DialId, P>,
    next: u64,
}

impl<P> Default for Dials<P> {
    fn default() -> Self {
        Self { under_way: BTreeMap::new(), next: 0 }
    }
}

impl<P> Dials<P> {
    /// Begins a dial: the driver gets it to make. With `node` no other remote will do.
    pub(crate) fn begin(&mut self, purpose: P, addresses: Vec<Address>, role: Role, node: Option<NodeId>) -> Transmit {
        let dial = DialId(self.next);
        self.next += 1;
        self.under_way.insert(dial, purpose);
        Transmit::Dial { dial, addresses, expect: RoleSet::only(role), node }
    }

    /// A dial is answered. `None` if it was forgotten meanwhile.
    pub(crate) fn end(&mut self, dial: DialId) -> Option<P> {
        self.under_way.remove(&dial)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &P> {
        self.under_way.values()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut P> {
        self.under_way.values_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.under_way.len()
    }

    /// Forgets the dials of which `which` holds: their connections will not be wanted.
    pub(crate) fn forget(&mut self, which: impl Fn(&P) -> bool) {
        self.under_way.retain(|_, purpose| !which(purpose));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(dials: &mut Dials<char>, purpose: char) -> DialId {
        match dials.begin(purpose, Vec::new(), Role::Node, None) {
            Transmit::Dial { dial, .. } => dial,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn dial_is_answered_once() {
        let mut dials = Dials::default();
        let (first, second) = (begin(&mut dials, 'a'), begin(&mut dials, 'b'));
        assert_eq!([dials.end(second), dials.end(second), dials.end(first)], [Some('b'), None, Some('a')]);
        assert_ne!(begin(&mut dials, 'c'), second, "a late answer must not meet another dial");
    }

    #[test]
    fn forgotten_dial_has_no_purpose() {
        let mut dials = Dials::default();
        let (first, second) = (begin(&mut dials, 'a'), begin(&mut dials, 'b'));
        dials.forget(|purpose| *purpose == 'a');
        assert_eq!(dials.iter().collect::<Vec<_>>(), [&'b']);
        assert_eq!((dials.end(first), dials.end(second)), (None, Some('b')));
    }
}
