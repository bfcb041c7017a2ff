//! The one policy that decides which remotes are accepted, the same for all transports.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;

use roost_wire::{RemoteIdentity, RoleSet};

use crate::bundle::Identity;
use crate::certificate::{Authority, Certificate, CertificateStatus, Leaf};
use crate::error::{ListFault, LoadError};
use crate::refusal::Refusal;
use crate::revocation::{NewestListNumber, RevocationList};

/// Decides if a certificate is accepted. A process has one, which all transports and listeners share, so that a
/// reloaded list is in force everywhere at once.
pub struct Policy {
    authority: Arc<Authority>,
    list_path: PathBuf,
    list: RwLock<Arc<RevocationList>>,
    /// File with the number of the newest list; unset if none is kept.
    newest: OnceLock<NewestListNumber>,
    /// The name in the certificate that was refused last. Nothing proves it.
    refused: Mutex<Option<String>>,
}

impl Policy {
    /// The policy of `identity`'s group, with the revocation list that the identity was loaded with.
    ///
    /// # Errors
    /// None at present; a policy may come to need more files.
    pub fn new(identity: &Identity) -> Result<Arc<Self>, LoadError> {
        Ok(Arc::new(Self::from_parts(identity.authority(), identity.list(), identity.list_path())))
    }

    pub(crate) fn from_parts(authority: &Arc<Authority>, list: &Arc<RevocationList>, list_path: &Path) -> Self {
        let list = RwLock::new(Arc::clone(list));
        Self {
            authority: Arc::clone(authority),
            list_path: list_path.to_owned(),
            list,
            newest: OnceLock::new(),
            refused: Mutex::default(),
        }
    }

    /// Accepts the holder of `leaf_der` as a remote with one of the expected roles, at the time `now`. Checks, in this
    /// order: form, the CA's signature, group, validity, revocation, role.
    ///
    /// It does not prove that the remote holds the key; the handshake does.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(&self, leaf_der: &[u8], expect: RoleSet, now: SystemTime) -> Result<RemoteIdentity, Refusal> {
        self.admit(leaf_der, expect, now).map(|(remote, _)| remote)
    }

    /// Like [`Self::verify`], and returns also the status that [`Self::recheck`] needs later.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn admit(
        &self,
        leaf_der: &[u8],
        expect: RoleSet,
        now: SystemTime,
    ) -> Result<(RemoteIdentity, CertificateStatus), Refusal> {
        let verdict = self.judge_leaf(leaf_der, expect, now);
        if verdict.is_err() {
            let claimed = Certificate::parse(leaf_der).and_then(|certificate| certificate.subject());
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = claimed.map(|subject| subject.name);
        }
        verdict
    }

    fn judge_leaf(
        &self,
        der: &[u8],
        expect: RoleSet,
        now: SystemTime,
    ) -> Result<(RemoteIdentity, CertificateStatus), Refusal> {
        let leaf = member(der, &self.authority)?;
        self.recheck(&leaf.status, now)?;
        if !expect.contains(leaf.subject.role) {
            return Err(Refusal::WrongRole);
        }
        Ok((leaf.identity(), leaf.status))
    }

    /// The name in the certificate that was refused last. It is unverified, so use it only in a log.
    pub fn last_refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks again a member that was admitted before: only validity and revocation may have changed.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn recheck(&self, standing: &CertificateStatus, now: SystemTime) -> Result<(), Refusal> {
        standing.check_time(now)?;
        if self.held().contains(&standing.serial) { Err(Refusal::Revoked) } else { Ok(()) }
    }

    /// Keeps the number of the newest list in `folder` from now on, so that no older list is accepted after a restart
    /// either. The group's other daemons on this host may use the same folder.
    ///
    /// # Errors
    /// The list in use is older than one that was seen before, or that one's number cannot be read, or the new number
    /// cannot be written.
    pub fn remember_in(&self, folder: &Path) -> Result<(), LoadError> {
        let newest = self.newest.get_or_init(|| NewestListNumber::new(folder, &self.authority));
        self.judge(newest, &self.held())
    }

    fn judge(&self, newest: &NewestListNumber, list: &RevocationList) -> Result<(), LoadError> {
        if let Some(held) = newest.number()?.filter(|held| *held > list.number()) {
            let fault = ListFault::Older { held, offered: list.number() };
            return Err(LoadError::List { path: self.list_path.clone(), fault });
        }
        newest.raise_to(list.number())
    }

    /// Reads the revocation list again and returns the number of certificates that it revokes. Connections that are up
    /// stay up: call [`Self::recheck`] for each.
    ///
    /// # Errors
    /// The list is missing, malformed, not signed by the group or older than the one in use, which then stays in use.
    pub fn reload(&self) -> Result<usize, LoadError> {
        let offered = RevocationList::read(&self.list_path, &self.authority)?;
        let mut held = self.list.write().unwrap_or_else(PoisonError::into_inner);
        offered.check_replaces(&held).map_err(|fault| LoadError::List { path: self.list_path.clone(), fault })?;
        let kept = self.newest.get().map_or(Ok(()), |newest| self.judge(newest, &offered));
        match kept {
            // The new list is in force even if its number cannot be kept for a restart: it is newer than the one in use.
            Ok(()) | Err(LoadError::ListNumberUnreadable { .. } | LoadError::ListNumberUnwritable { .. }) => {
                *held = offered;
            }
            Err(older) => return Err(older),
        }
        Ok(held.len())
    }

    /// The number of the revocation list in use, and the number of certificates that it revokes.
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
        // Nothing proves this name, but all that depends on it is the reason for a refusal.
        let elsewhere = certificate.subject().is_some_and(|subject| subject.group != authority.group());
        return Err(if elsewhere { Refusal::WrongGroup } else { Refusal::UnknownAuthority });
    }
    let leaf = certificate.leaf().ok_or(Refusal::Malformed)?;
    if leaf.subject.group != authority.group() {
        return Err(Refusal::WrongGroup);
    }
    Ok(leaf)
}
