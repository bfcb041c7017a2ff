//! The one decision on whom to talk to, the same for all transports.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use roost_proto::RoleSet;
use roost_proto::machine::Peer;

use crate::bundle::Identity;
use crate::certificate::{Authority, Certificate, Leaf, Standing};
use crate::error::LoadError;
use crate::refusal::Refusal;
use crate::revocation::RevocationList;

/// Decides whether a certificate is accepted. One per process, shared by all
/// transports and listeners.
pub struct Policy {
    authority: Arc<Authority>,
    list_path: PathBuf,
    list: RwLock<Arc<RevocationList>>,
}

impl Policy {
    /// The policy of `identity`'s group, with the revocation list that the
    /// identity was loaded with.
    ///
    /// # Errors
    /// None at present; a policy may come to need more files.
    pub fn new(identity: &Identity) -> Result<Arc<Self>, LoadError> {
        Ok(Arc::new(Self::of(identity.authority(), identity.list(), identity.list_path())))
    }

    pub(crate) fn of(authority: &Arc<Authority>, list: &Arc<RevocationList>, list_path: &Path) -> Self {
        let list = RwLock::new(Arc::clone(list));
        Self { authority: Arc::clone(authority), list_path: list_path.to_owned(), list }
    }

    /// Accepts the holder of `leaf_der` as a peer of an expected role, at the
    /// time `now`. Checks, in this order: form, the CA's signature, group,
    /// validity, revocation, role.
    ///
    /// It does not prove that the peer holds the key; the handshake does.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(&self, leaf_der: &[u8], expect: RoleSet, now: SystemTime) -> Result<Peer, Refusal> {
        self.admit(leaf_der, expect, now).map(|(peer, _)| peer)
    }

    /// As [`Self::verify`], with what [`Self::recheck`] needs later on.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn admit(&self, leaf_der: &[u8], expect: RoleSet, now: SystemTime) -> Result<(Peer, Standing), Refusal> {
        let leaf = member(leaf_der, &self.authority)?;
        self.recheck(&leaf.standing, now)?;
        if !expect.contains(leaf.subject.role) {
            return Err(Refusal::WrongRole);
        }
        Ok((leaf.peer(), leaf.standing))
    }

    /// Judges a member that has passed before by what may have changed since:
    /// validity and revocation.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn recheck(&self, standing: &Standing, now: SystemTime) -> Result<(), Refusal> {
        standing.check_time(now)?;
        if self.held().contains(&standing.serial) { Err(Refusal::Revoked) } else { Ok(()) }
    }

    /// Reads the revocation list again and returns how many certificates it
    /// revokes. Associations that are up are not ended by it:
    /// [`Self::recheck`] their peers.
    ///
    /// # Errors
    /// If the list is missing, malformed, not signed by the group or older
    /// than the one held; then the one held stays.
    pub fn reload(&self) -> Result<usize, LoadError> {
        let offered = RevocationList::read(&self.list_path, &self.authority)?;
        let mut held = self.list.write().unwrap_or_else(PoisonError::into_inner);
        offered.may_replace(&held).map_err(|fault| LoadError::List { path: self.list_path.clone(), fault })?;
        *held = offered;
        Ok(held.len())
    }

    /// The number of the revocation list held, and how many certificates it
    /// revokes.
    pub fn revocations(&self) -> (u64, usize) {
        let held = self.held();
        (held.number(), held.len())
    }

    fn held(&self) -> Arc<RevocationList> {
        Arc::clone(&self.list.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("group", &self.authority.group())
            .field("revocations", &self.revocations())
            .finish()
    }
}

/// The checks that do not change with time: form, signature, group.
pub(crate) fn member(der: &[u8], authority: &Authority) -> Result<Leaf, Refusal> {
    let certificate = Certificate::parse(der).ok_or(Refusal::Malformed)?;
    if !certificate.is_signed_by(authority) {
        // The name of another group is its own claim, good enough for a reason.
        let elsewhere = certificate.subject().is_some_and(|subject| subject.group != authority.group());
        return Err(if elsewhere { Refusal::WrongGroup } else { Refusal::Stranger });
    }
    let leaf = certificate.leaf().ok_or(Refusal::Malformed)?;
    if leaf.subject.group != authority.group() {
        return Err(Refusal::WrongGroup);
    }
    Ok(leaf)
}
