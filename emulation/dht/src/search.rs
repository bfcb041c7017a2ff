//! Iterative searches: the nodes that a search knows, asked in the order of their distance to the area.

use std::collections::BTreeMap;

use crate::geometry::{Circle, Contact, DhtId};

/// The most nodes that a search remembers.
const MAX_CANDIDATES: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) struct AreaSearch {
    circle: Circle,
    /// As many of the nearest nodes are asked, even outside.
    near: usize,
    parallel: usize,
    parallel_inside: usize,
    candidates: BTreeMap<(u64, DhtId), SearchCandidate>,
    open: usize,
}

#[derive(Clone, Copy, Debug)]
struct SearchCandidate {
    contact: Contact,
    /// Round trips until the search knew the node; 0 for the own contacts.
    depth: u32,
    state: CandidateState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CandidateState {
    New,
    Asked,
    Answered,
    Silent,
}

/// The most questions that a search has on their way at once: outside of its area and inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parallelism {
    pub(crate) outside: usize,
    pub(crate) inside: usize,
}

impl AreaSearch {
    pub(crate) const fn new(circle: Circle, near: usize, parallel: Parallelism) -> Self {
        let Parallelism { outside, inside } = parallel;
        Self { circle, near, parallel: outside, parallel_inside: inside, candidates: BTreeMap::new(), open: 0 }
    }

    pub(crate) const fn circle(&self) -> Circle {
        self.circle
    }

    /// Adds nodes that `from` named, or the node's own contacts.
    pub(crate) fn add(&mut self, contacts: &[Contact], from: Option<Contact>) {
        let from = from.and_then(|from| self.candidates.get(&self.key(from)));
        let depth = from.map_or(0, |from| from.depth + 1);
        for contact in contacts {
            if self.candidates.len() >= MAX_CANDIDATES {
                return;
            }
            let new = SearchCandidate { contact: *contact, depth, state: CandidateState::New };
            self.candidates.entry(self.key(*contact)).or_insert(new);
        }
    }

    /// The next node to ask, which counts as asked from now on.
    pub(crate) fn ask_next(&mut self) -> Option<Contact> {
        let key = self.next_key()?;
        let next = self.candidates.get_mut(&key)?;
        next.state = CandidateState::Asked;
        self.open += 1;
        Some(next.contact)
    }

    pub(crate) fn close(&mut self, contact: Contact, has_answered: Answered) {
        let key = self.key(contact);
        let Some(candidate) = self.candidates.get_mut(&key) else { return };
        if candidate.state == CandidateState::Asked {
            self.open -= 1;
            candidate.state = match has_answered {
                Answered::Yes => CandidateState::Answered,
                Answered::No => CandidateState::Silent,
            };
        }
    }

    /// True if all that must be asked has answered or is silent.
    pub(crate) fn is_over(&self) -> bool {
        self.open == 0 && self.next_key().is_none()
    }

    /// The nodes inside of the area that answered.
    pub(crate) fn found(&self) -> Vec<Contact> {
        let inside = self.candidates.iter().take_while(|((gap, _), _)| *gap == 0);
        inside.filter(|(_, one)| one.state == CandidateState::Answered).map(|(_, one)| one.contact).collect()
    }

    /// Round trips on the way to the nearest node that answered, its own included.
    pub(crate) fn hops(&self) -> Option<u32> {
        let answered = |one: &&SearchCandidate| one.state == CandidateState::Answered;
        self.candidates.values().find(answered).map(|one| one.depth + 1)
    }

    /// The nearest node that nobody has asked, among those that must be.
    fn next_key(&self) -> Option<(u64, DhtId)> {
        let mut rank = 0;
        for (key, candidate) in &self.candidates {
            let is_inside = key.0 == 0;
            if !is_inside && rank >= self.near {
                return None;
            }
            match candidate.state {
                CandidateState::New => {
                    let most = if is_inside { self.parallel_inside } else { self.parallel };
                    return (self.open < most).then_some(*key);
                }
                CandidateState::Asked | CandidateState::Answered => rank += 1,
                CandidateState::Silent => {}
            }
        }
        None
    }

    fn key(&self, contact: Contact) -> (u64, DhtId) {
        (self.circle.gap(contact.cell), contact.id)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use roost_wire::Cell;

    use super::*;

    const BOTH: Parallelism = Parallelism { outside: 2, inside: 3 };

    fn contact(x: i32) -> Contact {
        Contact { id: DhtId(x as u32), cell: Cell::new(x, 0) }
    }

    fn asked(search: &mut AreaSearch) -> Vec<u32> {
        std::iter::from_fn(|| search.ask_next()).map(|contact| contact.id.0).collect()
    }

    #[test]
    fn nearest_are_asked_first() {
        let mut search = AreaSearch::new(Circle { center: Cell::new(0, 0), radius: 0 }, 2, BOTH);
        search.add(&[contact(9), contact(5), contact(7)], None);
        assert_eq!(asked(&mut search), [5, 7]);
        // Nodes that a nearer node names come before the rest.
        search.close(contact(5), Answered::Yes);
        search.add(&[contact(2), contact(3)], Some(contact(5)));
        assert_eq!(asked(&mut search), [2]);
        search.close(contact(7), Answered::Yes);
        assert_eq!(asked(&mut search), [3]);
        search.close(contact(2), Answered::Yes);
        search.close(contact(3), Answered::Yes);
        assert!(search.is_over());
        assert_eq!((search.hops(), search.found()), (Some(2), Vec::new()));
    }

    #[test]
    fn each_node_inside_must_answer() {
        let mut search = AreaSearch::new(Circle { center: Cell::new(0, 0), radius: 6 }, 2, BOTH);
        search.add(&(1..=8).map(contact).collect::<Vec<_>>(), None);
        assert_eq!(asked(&mut search), [1, 2, 3]);
        for x in 1..=6 {
            search.close(contact(x), if x == 4 { Answered::No } else { Answered::Yes });
            asked(&mut search);
        }
        assert!(search.is_over());
        assert_eq!(search.found().len(), 5);
    }

    #[test]
    fn silent_nodes_are_replaced() {
        let mut search = AreaSearch::new(Circle { center: Cell::new(0, 0), radius: 0 }, 1, BOTH);
        search.add(&[contact(4), contact(6)], None);
        assert_eq!(asked(&mut search), [4]);
        search.close(contact(4), Answered::No);
        assert_eq!(asked(&mut search), [6]);
        assert!(!search.is_over());
    }
}
