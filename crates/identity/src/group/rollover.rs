//! The change of the group's authority: a new key beside the old one, and the end of the old one.
//!
//! While both are trusted, the new key lies in `next.key`. The document of trust is replaced in one step and decides:
//! an interrupted start has changed nothing, and an interrupted end is completed when the group is opened again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use roost_wire::{NodeId, Role, format_node};

use super::ca::{CA_VALIDITY, Signer};
use super::index::Index;
use super::{BACKDATED, Group, GroupError, GroupRecords, Issued, sealing, write};
use crate::bundle::read_authority;
use crate::certificate::Authority;
use crate::files::{
    GROUP_CERTIFICATE, GROUP_KEY, NEXT_CERTIFICATE, NEXT_KEY, TRUST, replace_private, replace_public, sync_parent,
};
use crate::fingerprint::Fingerprint;
use crate::trust::MAX_STEPS;

/// Members that a refusal names; the others are counted.
const MAX_NAMED: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollover {
    /// The number of the newest document of trust; 0 if the authority has never changed.
    pub number: u64,
    pub in_force: Fingerprint,
    /// The authority before, until the change is finished.
    pub former: Option<Fingerprint>,
    /// The newest certificates of members that have none of the authority in force.
    pub behind: Vec<Issued>,
    /// The document of trust, to be handed to daemons.
    pub document: PathBuf,
}

impl GroupRecords {
    /// The authorities that are trusted, and who still holds a certificate of the former one.
    ///
    /// # Errors
    /// The group's files cannot be read.
    pub fn rollover(&self, now: SystemTime) -> Result<Rollover, GroupError> {
        self.rollover_with(&mut self.index()?, now)
    }

    fn rollover_with(&self, index: &mut Index, now: SystemTime) -> Result<Rollover, GroupError> {
        let trust = self.trust.get();
        let changed = self.state(index)?.0.changes.get(&trust.number()).copied().unwrap_or_default();
        let issued = self.issued(index)?;
        let (before, after) = issued.split_at(changed.min(issued.len()));
        let behind = if trust.former().is_some() { behind(before, after, now) } else { Vec::new() };
        Ok(Rollover {
            number: trust.number(),
            in_force: trust.in_force().fingerprint(),
            former: trust.former().map(|former| former.fingerprint()),
            behind,
            document: self.dir.join(TRUST),
        })
    }
}

/// The newest valid certificates from `before` of members that have none from `after`. A member with a new key has kept
/// its name and has another id, as another member of that name has: if there are fewer new ids than old ones that have
/// not renewed, any of these may be shut out, so all are named.
fn behind(before: &[Issued], after: &[Issued], now: SystemTime) -> Vec<Issued> {
    let known: BTreeSet<NodeId> = before.iter().map(|one| one.node).collect();
    let renewed: BTreeSet<NodeId> = after.iter().map(|one| one.node).collect();
    let fresh: BTreeSet<_> =
        after.iter().filter(|one| !known.contains(&one.node)).map(|one| (title(one), one.node)).collect();
    let is_valid = |one: &&Issued| one.revoked.is_none() && now <= one.not_after;
    let mut named = BTreeSet::new();
    let unrenewed: Vec<&Issued> = before
        .iter()
        .rev()
        .filter(|one| is_valid(one) && !renewed.contains(&one.node) && named.insert(one.node))
        .collect();
    let mut missing: BTreeMap<_, usize> = BTreeMap::new();
    unrenewed.iter().for_each(|one| *missing.entry(title(one)).or_default() += 1);
    for (title, _) in fresh {
        missing.entry(title).and_modify(|count| *count = count.saturating_sub(1));
    }
    let is_missing = |one: &&Issued| missing.get(&title(one)).is_some_and(|count| *count > 0);
    unrenewed.into_iter().filter(is_missing).cloned().collect()
}

fn title(issued: &Issued) -> (&str, Role) {
    (&issued.name, issued.role)
}

impl Group {
    /// Makes a new authority, which signs everything from now on. Both keys sign the document by which members trust
    /// both.
    ///
    /// # Errors
    /// The last change is not finished, or the folder cannot be written.
    pub fn start_rollover(&self, now: SystemTime) -> Result<Rollover, GroupError> {
        let mut index = self.index()?;
        // The only copy of the key in force may lie where the next one is written.
        self.tidy_keys()?;
        let trust = self.trust.get();
        if trust.former().is_some() {
            return Err(GroupError::RolloverUnderWay);
        } else if trust.number() + 2 > MAX_STEPS as u64 {
            return Err(GroupError::TooMany("changes of its authority", MAX_STEPS / 2));
        }
        let made = Signer::generate(self.name(), trust.in_force().datum(), now - BACKDATED, now + CA_VALIDITY)?;
        let key = made.key.serialized_der();
        let next = Authority::parse(made.certificate.der()).map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
        let next = Arc::new(next);
        let unusable = || GroupError::WrongKey { path: self.dir.join(NEXT_KEY) };
        let signer = Signer::new(Arc::clone(&next), key)?.ok_or_else(unusable)?;
        let document = trust.extended(&[trust.in_force(), &next], &[self.signer()?, Arc::new(signer)])?;
        let text = match self.passphrase.as_deref().filter(|_| self.is_sealed().unwrap_or(true)) {
            Some(passphrase) => sealing::seal(key, passphrase).ok_or_else(unusable)?,
            None => made.key.serialize_pem(),
        };
        write(&self.dir.join(NEXT_KEY), |path| replace_private(path, &text))?;
        write(&self.dir.join(NEXT_CERTIFICATE), |path| replace_public(path, made.certificate.pem()))?;
        // The mark of a change that was interrupted here does not count: a later one has the same number.
        let marked = index.add_change(trust.number() + 1);
        marked.map_err(|source| GroupError::Index { path: index.path().to_owned(), source })?;
        self.put_in_force(&document)?;
        self.rollover_with(&mut index, now)
    }

    /// Ends the trust in the former authority and deletes its key. [`Forced::Yes`] also shuts out the members that have no
    /// certificate of the new one.
    ///
    /// # Errors
    /// No change is under way, members would be shut out, or the folder cannot be written.
    pub fn finish_rollover(&self, forced: Forced, now: SystemTime) -> Result<Rollover, GroupError> {
        let mut index = self.index()?;
        let trust = self.trust.get();
        let former = trust.former().ok_or(GroupError::NoRollover)?;
        let behind = self.rollover_with(&mut index, now)?.behind;
        if forced == Forced::No && !behind.is_empty() {
            return Err(GroupError::ShutOut { count: behind.len(), members: named(&behind) });
        }
        // Whoever joins later trusts nothing of the former authority.
        self.sign_list_again(&mut index, now)?;
        self.sign_policy_again(&mut index)?;
        let signers = [self.signer()?, self.signer_of(former)?];
        self.put_in_force(&trust.extended(&[trust.in_force()], &signers)?)?;
        self.tidy_keys()?;
        Ok(Rollover { behind, ..self.rollover_with(&mut index, now)? })
    }

    fn put_in_force(&self, document: &[u8]) -> Result<(), GroupError> {
        write(&self.dir.join(TRUST), |path| replace_public(path, document))?;
        self.refresh()
    }

    /// Completes a finished change: the key and the certificate in force take the places of the former ones.
    pub(super) fn tidy_keys(&self) -> Result<(), GroupError> {
        let (next, key) = (self.dir.join(NEXT_CERTIFICATE), self.dir.join(NEXT_KEY));
        let trust = self.trust.get();
        let is_over = || read_authority(&next).is_ok_and(|authority| authority == **trust.in_force());
        if trust.former().is_some() || !next.exists() || !is_over() {
            return Ok(());
        }
        if key.exists() {
            write(&self.dir.join(GROUP_KEY), |path| fs::rename(&key, path))?;
        }
        write(&self.dir.join(GROUP_CERTIFICATE), |path| fs::rename(&next, path).and_then(|()| sync_parent(path)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    Yes,
    No,
}

fn named(behind: &[Issued]) -> String {
    let names = behind.iter().take(MAX_NAMED).map(|one| format_node(one.node, Some(&one.name)));
    let more = (behind.len() > MAX_NAMED).then(|| "…".to_owned());
    names.chain(more).collect::<Vec<_>>().join(", ")
}
