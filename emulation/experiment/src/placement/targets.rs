//! Targets of a node's requests.

use std::sync::Arc;

/// A set of nodes, by index, from which a workload draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// All but the node itself. They are not listed: that would take as many indices for each node as there are
    /// nodes.
    Others {
        /// The index of the node itself.
        own: usize,
        nodes: usize,
    },
    Some(Arc<[usize]>),
}

impl Targets {
    pub fn len(&self) -> usize {
        match self {
            Self::Others { own, nodes } => nodes - usize::from(own < nodes),
            Self::Some(places) => places.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A target, by its number below [`Self::len`].
    pub fn get(&self, number: usize) -> usize {
        match self {
            Self::Others { own, .. } => number + usize::from(number >= *own),
            Self::Some(places) => places[number],
        }
    }

    /// True if the node may request from it.
    pub fn contains(&self, place: usize) -> bool {
        match self {
            Self::Others { own, nodes } => place != *own && place < *nodes,
            // The indices are sorted.
            Self::Some(places) => places.binary_search(&place).is_ok(),
        }
    }

    /// All of them, in the order of the nodes.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).map(|number| self.get(number))
    }
}

impl FromIterator<usize> for Targets {
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> Self {
        Self::Some(places.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_are_all_but_oneself() {
        for own in 0..4 {
            let written: Vec<usize> = (0..4).filter(|place| *place != own).collect();
            let others = Targets::Others { own, nodes: 4 };
            assert_eq!(others.iter().collect::<Vec<_>>(), written);
            assert!((0..5).all(|place| others.contains(place) == written.contains(&place)));
            assert_eq!(Targets::from_iter(written.clone()).iter().collect::<Vec<_>>(), written);
        }
    }
}
