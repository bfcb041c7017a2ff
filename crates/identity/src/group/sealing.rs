//! The CA's key at rest, sealed with a passphrase: encrypted PKCS#8 (RFC 5958; PBES2 with scrypt and AES-256-CBC), which
//! `openssl pkey` reads, too.

use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use pkcs8::der::SecretDocument;
use pkcs8::pkcs5::{pbes2, scrypt};
use pkcs8::{EncryptedPrivateKeyInfoRef, LineEnding, PrivateKeyInfoRef};

use super::{Group, GroupError, GroupRecords, write};
use crate::error::LoadError;
use crate::files::{GROUP_KEY, MAX_PEM_BYTES, NEXT_KEY, read_private_text, replace_private};

const SEALED: &str = "ENCRYPTED PRIVATE KEY";
const PLAIN: &str = "PRIVATE KEY";

/// Cost of scrypt: 16 MiB of memory (128 bytes × 8 × 2^14). openssl takes less than 32 MiB.
const SCRYPT_LOG_N: u8 = 14;
const SCRYPT_R: u32 = 8;
const SCRYPT_P: u32 = 1;

pub const MIN_PASSPHRASE: usize = 8;

pub(super) fn is_sealed(pem: &str) -> bool {
    pem.trim_start().starts_with(&format!("-----BEGIN {SEALED}-----"))
}

/// The key in the file `path` of a group, PKCS#8 DER.
pub(super) fn open(path: &Path, passphrase: Option<&str>) -> Result<SecretDocument, GroupError> {
    let text = read_private_text(path, MAX_PEM_BYTES)?;
    let damaged = || GroupError::Load(LoadError::NotPem { path: path.to_owned(), expected: "private key" });
    let (label, document) = SecretDocument::from_pem(&text).map_err(|_| damaged())?;
    match (label, passphrase) {
        (PLAIN, _) => Ok(document),
        (SEALED, None) => Err(GroupError::Sealed { path: path.to_owned() }),
        (SEALED, Some(passphrase)) => {
            let sealed = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).map_err(|_| damaged())?;
            sealed.decrypt(passphrase).map_err(|_| GroupError::WrongPassphrase { path: path.to_owned() })
        }
        _ => Err(damaged()),
    }
}

/// The files of the group's keys: that of its authority, and that of the next one while it changes.
pub(super) fn key_files(dir: &Path) -> Vec<PathBuf> {
    let next = Some(dir.join(NEXT_KEY)).filter(|path| path.exists());
    std::iter::once(dir.join(GROUP_KEY)).chain(next).collect()
}

pub(super) fn seal(key: &[u8], passphrase: &str) -> Option<String> {
    let (mut salt, mut iv) = ([0; 16], [0; 16]);
    rand::fill(&mut salt).and_then(|()| rand::fill(&mut iv)).ok()?;
    let cost = scrypt::Params::new(SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P).ok()?;
    let parameters = pbes2::Parameters::generate_scrypt_aes256cbc(cost, &salt, iv).ok()?;
    let sealed = PrivateKeyInfoRef::try_from(key).ok()?.encrypt_with_params(parameters, passphrase).ok()?;
    Some(sealed.to_pem(SEALED, LineEnding::LF).ok()?.to_string())
}

impl Group {
    /// Seals the group's key with a passphrase, and replaces it in one step.
    ///
    /// # Errors
    /// The passphrase is too short, the key is sealed already, or the file cannot be written.
    pub fn seal(dir: &Path, passphrase: &str) -> Result<(), GroupError> {
        let records = GroupRecords::open(dir)?;
        if records.is_sealed()? {
            return Err(GroupError::SealedAlready { path: dir.join(GROUP_KEY) });
        }
        if passphrase.chars().count() < MIN_PASSPHRASE {
            return Err(GroupError::ShortPassphrase(MIN_PASSPHRASE));
        }
        // An earlier try may have sealed one of the keys.
        let group = Self::open_sealed(dir, passphrase)?;
        let _lock = group.index()?;
        // The file that tells if the group is sealed comes last.
        for path in key_files(dir).iter().rev() {
            let text = seal(open(path, Some(passphrase))?.as_bytes(), passphrase);
            let text = text.ok_or(GroupError::Crypto(rcgen::Error::RingUnspecified))?;
            write(path, |path| replace_private(path, &text))?;
        }
        Ok(())
    }

    /// Stores the group's key without a passphrase again.
    ///
    /// # Errors
    /// The key is not sealed, the passphrase is wrong, or the file cannot be written.
    pub fn unseal(dir: &Path, passphrase: &str) -> Result<(), GroupError> {
        if !GroupRecords::open(dir)?.is_sealed()? {
            return Err(GroupError::NotSealed { path: dir.join(GROUP_KEY) });
        }
        let group = Self::open_sealed(dir, passphrase)?;
        let _lock = group.index()?;
        for path in key_files(dir).iter().rev() {
            let text = open(path, Some(passphrase))?.to_pem(PLAIN, LineEnding::LF);
            let text = text.map_err(|_| GroupError::Crypto(rcgen::Error::RingUnspecified))?;
            write(path, |path| replace_private(path, &text))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Validity;
    use roost_wire::Role;
    use std::process::Command;

    #[test]
    fn sealed_key_needs_its_passphrase() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("group");
        Group::init(&at, "alpha").unwrap();
        assert!(matches!(Group::seal(&at, "short"), Err(GroupError::ShortPassphrase(_))));
        Group::seal(&at, "correct horse").unwrap();
        assert!(matches!(Group::seal(&at, "correct horse"), Err(GroupError::SealedAlready { .. })));
        assert!(matches!(Group::open(&at), Err(GroupError::Sealed { .. })));
        assert!(matches!(Group::open_sealed(&at, "wrong horse"), Err(GroupError::WrongPassphrase { .. })));
        let group = Group::open_sealed(&at, "correct horse").unwrap();
        group.issue("a", Role::Node, Validity::default(), &dir.path().join("a")).unwrap();
        assert_eq!(GroupRecords::open(&at).unwrap().show().unwrap().len(), 1);
        assert!(matches!(Group::unseal(&at, "wrong horse"), Err(GroupError::WrongPassphrase { .. })));
        Group::unseal(&at, "correct horse").unwrap();
        Group::open(&at).unwrap();
        assert!(matches!(Group::unseal(&at, "correct horse"), Err(GroupError::NotSealed { .. })));
    }

    #[test]
    fn openssl_reads_the_sealed_key() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("group");
        Group::init(&at, "alpha").unwrap();
        Group::seal(&at, "correct horse").unwrap();
        let key = at.join("group.key");
        let arguments = ["pkey", "-passin", "pass:correct horse", "-pubout", "-in"];
        let Ok(output) = Command::new("openssl").args(arguments).arg(&key).output() else {
            eprintln!("there is no openssl here");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Group::unseal(&at, "correct horse").unwrap();
        let plain = Command::new("openssl").args(["pkey", "-pubout", "-in"]).arg(&key).output().unwrap();
        assert_eq!(output.stdout, plain.stdout);
    }
}
