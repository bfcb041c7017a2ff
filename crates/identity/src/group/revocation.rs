//! Revocation of members' certificates, by name, id or serial number.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use roost_wire::{NodeSelector, format_node};

use super::index::Index;
use super::{Group, GroupError, Issued, write};
use crate::certificate::Serial;
use crate::files::{REVOCATION_LIST, replace_public};
use crate::revocation::MAX_REVOKED;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// The certificates that were not revoked before.
    pub revoked: Vec<Issued>,
    pub number: u64,
    /// The new list. The operator copies it over `revoked.pem` of every host's bundle, and the daemons read it on
    /// SIGHUP.
    pub list: PathBuf,
}

/// Time after its end for which a certificate stays in the list, for hosts whose clocks are behind.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// True if a certificate with this end needs no place in a list any more.
pub(super) fn is_long_over(not_after: SystemTime, now: SystemTime) -> bool {
    now.duration_since(not_after).is_ok_and(|over| over > KEPT)
}

/// Fewest digits of an id by which a member is revoked or approved, so that a slip of the hand does neither.
pub(super) const MIN_DIGITS: usize = 4;

/// The certificates of the member with this name, id or serial number, or else of the only member whose id begins with
/// these digits, at least [`MIN_DIGITS`].
pub(super) fn matching(issued: Vec<Issued>, which: &str) -> Result<Vec<Issued>, GroupError> {
    let is_named = |issued: &Issued| issued.name == which || issued.serial == which || issued.node.to_string() == which;
    if issued.iter().any(is_named) {
        return Ok(issued.into_iter().filter(is_named).collect());
    }
    let none = || GroupError::NotIssued(which.to_owned());
    let called: NodeSelector = which.parse().ok().filter(|_| which.len() >= MIN_DIGITS).ok_or_else(none)?;
    let begin: Vec<Issued> = issued.into_iter().filter(|issued| called.matches(issued.node, None)).collect();
    let mut members: Vec<String> = begin.iter().map(|issued| format_node(issued.node, Some(&issued.name))).collect();
    members.sort_unstable();
    members.dedup();
    match members.len() {
        0 => Err(none()),
        1 => Ok(begin),
        _ => Err(GroupError::Several { which: which.to_owned(), members: members.join(", ") }),
    }
}

impl Group {
    /// Revokes every certificate with the name, node id or serial number `which` and signs the next revocation list,
    /// without those that have ended long ago.
    ///
    /// # Errors
    /// No certificate matches, all that match are revoked already, or the files cannot be written. If only adding the
    /// new list's number to the index fails, the revocation has happened nevertheless.
    pub fn revoke(&self, which: &str) -> Result<Revocation, GroupError> {
        let mut index = self.index()?;
        let (entries, list) = self.state(&mut index)?;
        let now = SystemTime::now();
        let over = entries.issued.iter().filter(|one| is_long_over(one.not_after, now));
        let over: BTreeSet<Serial> = over.filter_map(|one| Serial::from_hex(&one.serial)).collect();
        let matching = matching(entries.issued, which)?;
        let fresh = |issued: Issued| {
            let serial = Serial::from_hex(&issued.serial)?;
            (!list.contains(&serial) && !over.contains(&serial))
                .then_some((serial, Issued { revoked: Some(now), ..issued }))
        };
        let (serials, revoked): (Vec<Serial>, Vec<Issued>) = matching.into_iter().filter_map(fresh).unzip();
        if revoked.is_empty() {
            return Err(GroupError::AlreadyRevoked(which.to_owned()));
        }
        let kept: Vec<_> = list.iter().filter(|(serial, _)| !over.contains(*serial)).collect();
        if kept.len() + serials.len() > MAX_REVOKED {
            return Err(GroupError::ListFull);
        }
        let number = self.trust.get().next_number(list.number());
        let all = kept.into_iter().chain(serials.iter().map(|serial| (serial, now)));
        let list = self.write_list(&mut index, self.signer()?.sign_list(number, now, all)?, number)?;
        Ok(Revocation { revoked, number, list })
    }

    /// Signs the list again, as the next number, by the authority in force.
    pub(super) fn sign_list_again(&self, index: &mut Index, now: SystemTime) -> Result<PathBuf, GroupError> {
        let (_, list) = self.state(index)?;
        let number = self.trust.get().next_number(list.number());
        let text = self.signer()?.sign_list(number, now, list.iter())?;
        self.write_list(index, text, number)
    }

    fn write_list(&self, index: &mut Index, text: String, number: u64) -> Result<PathBuf, GroupError> {
        let path = self.dir.join(REVOCATION_LIST);
        write(&path, |path| replace_public(path, &text))?;
        index.add_list(number).map_err(|source| GroupError::Index { path: index.path().to_owned(), source })?;
        Ok(path)
    }
}
