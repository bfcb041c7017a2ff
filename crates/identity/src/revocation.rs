//! Reads revocation lists: standard X.509 CRLs, signed by the group's CA.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls_pki_types::CertificateRevocationListDer;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{CertificateRevocationList, FromDer, RevokedCertificate};

use crate::certificate::{Authority, Serial, system_time};
use crate::error::{ListFault, LoadError};
use crate::files::{MAX_LIST_BYTES, read_optional, read_pem, replace_public};
use crate::trust::Trust;

/// Most certificates that a group revokes; their list fits [`MAX_LIST_BYTES`].
pub(crate) const MAX_REVOKED: usize = 50_000;

/// Longest content read: a `u64` has 20 digits.
const MAX_NUMBER_BYTES: u64 = 32;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RevocationList {
    der: Arc<[u8]>,
    /// Serial number of the list; each new list has a greater one.
    number: u64,
    revoked: BTreeMap<Serial, SystemTime>,
}

impl RevocationList {
    /// Reads and verifies the list in a file.
    pub(crate) fn read(path: &Path, trust: &Trust) -> Result<Arc<Self>, LoadError> {
        let der: CertificateRevocationListDer<'_> = read_pem(path, MAX_LIST_BYTES, "revocation list")?;
        // A former authority may have signed it, long before the file was read.
        let list = Self::parse_former(&der, trust);
        list.map(Arc::new).map_err(|fault| LoadError::List { path: path.to_owned(), fault })
    }

    /// Parses a list and verifies that a trusted authority signed it. `nextUpdate` is ignored: a network that is cut off
    /// keeps its list.
    pub(crate) fn parse(der: &[u8], trust: &Trust) -> Result<Self, ListFault> {
        Self::parse_by(der, trust, trust.trusted())
    }

    /// As [`Self::parse`], where the authority may be one that is trusted no more.
    fn parse_former(der: &[u8], trust: &Trust) -> Result<Self, ListFault> {
        Self::parse_by(der, trust, trust.ever().iter())
    }

    fn parse_by<'a>(
        der: &[u8],
        trust: &Trust,
        mut authorities: impl Iterator<Item = &'a Arc<Authority>>,
    ) -> Result<Self, ListFault> {
        let (rest, crl) = CertificateRevocationList::from_der(der).map_err(|_| ListFault::Malformed)?;
        if !rest.is_empty() {
            return Err(ListFault::Malformed);
        }
        let (body, signature) = (crl.tbs_cert_list.as_ref(), &crl.signature_value.data);
        let signer = authorities.find(|authority| authority.signed(der, body, signature));
        let signer = signer.ok_or(ListFault::BadSignature)?;
        let digits = crl.crl_number().ok_or(ListFault::Malformed)?.to_u64_digits();
        let number = match digits.as_slice() {
            [] => 0,
            [number] => *number,
            _ => return Err(ListFault::Malformed),
        };
        trust.check_number(signer, number)?;
        let entry = |revoked: &RevokedCertificate<'_>| {
            Some((Serial::from_raw(revoked.raw_serial()), system_time(revoked.revocation_date)?))
        };
        let revoked = crl.iter_revoked_certificates().map(entry).collect::<Option<_>>();
        Ok(Self { der: der.into(), number, revoked: revoked.ok_or(ListFault::Malformed)? })
    }

    /// Checks that this list may replace `held`: it is newer, or the same.
    pub(crate) fn check_replaces(&self, held: &Self) -> Result<(), ListFault> {
        if self.number < held.number {
            Err(ListFault::Older { held: held.number, offered: self.number })
        } else if self.number == held.number && self.revoked != held.revoked {
            Err(ListFault::Forked(self.number))
        } else {
            Ok(())
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn der(&self) -> &Arc<[u8]> {
        &self.der
    }

    pub(crate) fn len(&self) -> usize {
        self.revoked.len()
    }

    pub(crate) fn contains(&self, serial: &Serial) -> bool {
        self.revoked.contains_key(serial)
    }

    /// Time at which the certificate was revoked.
    pub(crate) fn revoked_at(&self, serial: &Serial) -> Option<SystemTime> {
        self.revoked.get(serial).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Serial, SystemTime)> {
        self.revoked.iter().map(|(serial, at)| (serial, *at))
    }
}

/// Files by which a host remembers a group: the number of the newest list that it has seen, and the newest list and the
/// newest document of trust that have come over the network.
#[derive(Debug)]
pub(crate) struct SeenLists {
    number: PathBuf,
    list: PathBuf,
    pub(crate) trust: PathBuf,
}

impl SeenLists {
    /// Files in `folder`, named after the first authority: each group has its own.
    pub(crate) fn new(folder: &Path, trust: &Trust) -> Self {
        let digest = Sha256::digest(trust.first().spki());
        let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let number = folder.join(format!("revocations-seen-{name}"));
        let [list, trust] = ["revocations", "trust"].map(|kind| folder.join(format!("{kind}-{name}.der")));
        Self { list, trust: trust.with_extension("cbor"), number }
    }

    /// The document of another kind that was kept last.
    pub(crate) fn kept_document(&self, kind: u16) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(self.document(kind)).ok()?;
        file.take(MAX_LIST_BYTES).read_to_end(&mut bytes).ok().map(|_| bytes)
    }

    /// Keeps a document of another kind, if `is_newer` than the one that is kept: another daemon of the group may use
    /// the same folder.
    pub(crate) fn keep_document(
        &self,
        kind: u16,
        bytes: &[u8],
        is_newer: impl FnOnce(Option<Vec<u8>>) -> bool,
    ) -> Result<(), LoadError> {
        let path = self.document(kind);
        let written = || {
            let lock = File::create(self.number.with_extension("lock"))?;
            lock.lock()?;
            if is_newer(self.kept_document(kind)) { replace_public(&path, bytes) } else { Ok(()) }
        };
        written().map_err(|source| LoadError::DocumentUnwritable { path: path.clone(), source })
    }

    fn document(&self, kind: u16) -> PathBuf {
        self.list.with_extension(format!("document-{kind}"))
    }

    /// Number of the newest list seen; `None` before the first.
    pub(crate) fn number(&self) -> Result<Option<u64>, LoadError> {
        let mut text = String::new();
        let read = File::open(&self.number).and_then(|file| file.take(MAX_NUMBER_BYTES).read_to_string(&mut text));
        let number = match read {
            Ok(_) => text.trim_end().parse().map(Some).map_err(|_| io::ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        number.map_err(|source| LoadError::ListNumberUnreadable { path: self.number.clone(), source })
    }

    /// Stores a number if it is greater than the one stored.
    pub(crate) fn raise_to(&self, number: u64) -> Result<(), LoadError> {
        if self.number()?.is_some_and(|stored| stored >= number) {
            return Ok(());
        }
        let written = replace_public(&self.number, format!("{number}\n"));
        written.map_err(|source| LoadError::ListNumberUnwritable { path: self.number.clone(), source })
    }

    /// The list that was kept last; `None` before the first.
    pub(crate) fn kept(&self, trust: &Trust) -> Result<Option<Arc<RevocationList>>, LoadError> {
        let Some(der) = read_optional(&self.list, MAX_LIST_BYTES)? else { return Ok(None) };
        let list = RevocationList::parse_former(&der, trust);
        list.map(|list| Some(Arc::new(list))).map_err(|fault| LoadError::List { path: self.list.clone(), fault })
    }

    /// Keeps a list, and then its number: a host that fails in between starts again with the new list. Another daemon
    /// of the group may do the same at this moment, and may have a newer one.
    pub(crate) fn keep(&self, list: &RevocationList) -> Result<(), LoadError> {
        let unwritable = |source| LoadError::ListUnwritable { path: self.list.clone(), source };
        let lock = File::create(self.number.with_extension("lock")).map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        if self.number()?.is_some_and(|stored| stored > list.number()) {
            return Ok(());
        }
        replace_public(&self.list, list.der()).map_err(unwritable)?;
        self.raise_to(list.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Group;
    use roost_wire::Role;
    use rustls_pki_types::pem::PemObject;

    /// A group's second list, with one entry, and the trust in the authority that signed it.
    fn list() -> (Vec<u8>, Trust) {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        group.issue("a", Role::Node, Default::default(), &dir.path().join("a")).unwrap();
        let revocation = group.revoke("a").unwrap();
        let authority = crate::bundle::read_authority(&dir.path().join("group/group.pem")).unwrap();
        (CertificateRevocationListDer::from_pem_file(revocation.list).unwrap().to_vec(), Trust::anchored(authority))
    }

    #[test]
    fn a_list_reads_back() {
        let (der, trust) = list();
        let list = RevocationList::parse(&der, &trust).unwrap();
        assert_eq!((list.number(), list.len()), (2, 1));
    }

    #[test]
    fn altered_or_truncated_list_is_rejected() {
        let (der, trust) = list();
        for bit in 0..der.len() * 8 {
            let mut bad = der.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(RevocationList::parse(&bad, &trust).is_err(), "bit {bit}");
        }
        for len in 0..der.len() {
            assert_eq!(RevocationList::parse(&der[..len], &trust), Err(ListFault::Malformed));
        }
        let padded = [der.as_slice(), &[0]].concat();
        assert_eq!(RevocationList::parse(&padded, &trust), Err(ListFault::Malformed));
    }

    #[test]
    fn another_authoritys_list_is_not_ours() {
        let ((der, _), (_, trust)) = (list(), list());
        assert_eq!(RevocationList::parse(&der, &trust), Err(ListFault::BadSignature));
    }
}
