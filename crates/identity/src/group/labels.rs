//! Labels of members in the group's records. A member's certificate gets them when it is made or renewed.

use std::collections::BTreeSet;
use std::time::SystemTime;

use roost_wire::{Labels, NodeId};

use super::index::Entries;
use super::revocation::matching;
use super::{GroupError, GroupRecords, Issued};
use crate::certificate::Leaf;
use crate::subject::Subject;

impl GroupRecords {
    /// Gives the members with this name, node id or serial number, or the only one whose id begins with these digits,
    /// other labels instead of all that they have. Their next certificates have them. Returns their newest certificates.
    ///
    /// # Errors
    /// No certificate matches, all that match are revoked or over, or the index cannot be written.
    pub fn set_labels(&self, which: &str, labels: &Labels, now: SystemTime) -> Result<Vec<Issued>, GroupError> {
        let mut index = self.index()?;
        let all = self.issued(&mut index)?;
        let meant = matching(all.clone(), which)?;
        // A member that has changed its key has certificates of both under its name.
        let is_meant = |one: &Issued| meant.iter().any(|other| (&other.name, other.role) == (&one.name, one.role));
        let mut held: Vec<Issued> = all.into_iter().filter(is_meant).collect();
        held.retain(|one| one.revoked.is_none() && now <= one.not_after);
        let mut seen = BTreeSet::new();
        held.reverse();
        held.retain(|one| seen.insert(one.node));
        if held.is_empty() {
            return Err(GroupError::AlreadyRevoked(which.to_owned()));
        }
        for one in &mut held {
            let listed = index.add_labels(one.node, labels);
            listed.map_err(|source| GroupError::Index { path: index.path().to_owned(), source })?;
            one.next_labels = labels.clone();
        }
        Ok(held)
    }
}

impl Entries {
    /// The holder of a certificate as its next one names it: the records decide about the labels.
    pub(super) fn renewed(&self, leaf: &Leaf) -> Subject {
        let labels = self.next_labels(leaf.node).unwrap_or(&leaf.subject.labels).clone();
        Subject { labels, ..leaf.subject.clone() }
    }

    pub(super) fn next_labels(&self, node: NodeId) -> Option<&Labels> {
        self.labels.get(&node)
    }
}
