//! Why an operation on a group failed.

use std::io;
use std::path::PathBuf;

use crate::error::LoadError;
use crate::refusal::Refusal;
use crate::subject::NameError;

/// Why an operation on a group failed, in one sentence. Nothing has changed
/// unless the variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The name cannot be used.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A directory or file of that name is there already. Nothing is ever
    /// written over.
    #[error("{} exists already: choose another place or remove it", path.display())]
    Exists {
        /// What exists.
        path: PathBuf,
    },
    /// There is no group at that place.
    #[error("there is no group in {}: run roost group init {} --name NAME", path.display(), path.display())]
    NoGroup {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A file of the group or of a bundle cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The CA's key is not that of its certificate.
    #[error("the key {} does not belong to the group's certificate: restore it from a backup", path.display())]
    WrongKey {
        /// The key's file.
        path: PathBuf,
    },
    /// The index cannot be read or added to.
    #[error("cannot use the group's index {}: {source}", path.display())]
    Index {
        /// The index.
        path: PathBuf,
        /// What the system says, or which line is damaged.
        source: io::Error,
    },
    /// The revocation list in the group's directory is not its newest.
    #[error(
        "the revocation list {} is number {found}, but number {expected} was signed already: restore the newest one",
        path.display()
    )]
    ListTooOld {
        /// The list.
        path: PathBuf,
        /// Its number.
        found: u64,
        /// The greatest number in the index.
        expected: u64,
    },
    /// The revocation list has as many entries as a host reads.
    #[error("the revocation list is full: make a new group and issue its members' bundles anew")]
    ListFull,
    /// A file or directory cannot be written. What was written so far is
    /// removed; the index may list a certificate that nobody has.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The validity asked for is empty, before 1970 or longer than the CA's.
    #[error("the validity asked for is not possible: {0}")]
    Validity(&'static str),
    /// No certificate of this group matches.
    #[error("the group has issued no certificate with the name, node id or serial number {0:?}: see roost group show")]
    NotIssued(String),
    /// The beginning of an id is that of several members.
    #[error("{which} may mean {members}: give as much of the id as tells them apart")]
    Several {
        /// The beginning.
        which: String,
        /// Their names and ids.
        members: String,
    },
    /// All matching certificates are revoked already.
    #[error("every certificate of {0:?} is revoked already")]
    AlreadyRevoked(String),
    /// The certificate is none that the group would issue again.
    #[error("the certificate {} cannot be renewed: {refusal}", path.display())]
    NotRenewable {
        /// The certificate's file.
        path: PathBuf,
        /// Why.
        refusal: Refusal,
    },
    /// The CA's software failed.
    #[error("making the certificate failed: {0}")]
    Crypto(#[from] rcgen::Error),
}
