//! Errors of a bundle or a revocation list that cannot be used.

use std::io;
use std::path::PathBuf;

use crate::refusal::Refusal;

/// A host's bundle or revocation list cannot be used. The one in use before stays in use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file is missing or the system denies access to it.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file is larger than any that a group writes.
    #[error("{} is larger than {limit} bytes: it is not the file that a group writes", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    /// The file does not hold exactly one PEM section of the expected type.
    #[error("{} does not hold exactly one {expected} in PEM form: copy the bundle again", path.display())]
    NotPem {
        path: PathBuf,
        /// The type that the file should hold, as words for the error's sentence.
        expected: &'static str,
    },
    #[error("{} does not hold {bytes} bytes as hexadecimal digits: copy the bundle again", path.display())]
    NotHex {
        path: PathBuf,
        /// The length that the key should have.
        bytes: usize,
    },
    /// The file's permissions allow others than its owner to use the private key.
    #[error(
        "others than its owner can use the private key {} (mode {mode:03o}): run chmod 600 {}",
        path.display(), path.display()
    )]
    KeyExposed {
        path: PathBuf,
        /// The permission bits, without the file type.
        mode: u32,
    },
    /// The private key is not a P-256 key, or does not belong to the certificate.
    #[error(
        "the private key {} does not belong to the certificate {}: copy both from the same bundle",
        key.display(), certificate.display()
    )]
    KeyMismatch { key: PathBuf, certificate: PathBuf },
    #[error("{} is not the certificate of a group: {reason}", path.display())]
    Authority {
        path: PathBuf,
        /// The end of a sentence that begins with the file's name.
        reason: &'static str,
    },
    /// Every member would refuse our own certificate, whatever the time.
    #[error("the certificate {} cannot be used with {}: {refusal}", path.display(), authority.display())]
    Certificate { path: PathBuf, authority: PathBuf, refusal: Refusal },
    #[error("our certificate {} expired on {not_after}: issue a new one, or set this host's clock", path.display())]
    Expired {
        path: PathBuf,
        /// The last second of the validity, for people to read.
        not_after: String,
    },
    #[error("our certificate {} is valid only from {not_before}: wait, or set this host's clock", path.display())]
    NotYetValid {
        path: PathBuf,
        /// The first second of the validity, for people to read.
        not_before: String,
    },
    /// The certificate is not a renewal of the one in use.
    #[error(
        "the certificate {} is of {offered} and another key or role than that of {held} in use: to renew one, run \
         roost group renew; to become another member, restart",
        path.display()
    )]
    NotRenewed {
        path: PathBuf,
        /// The name in the certificate in use.
        held: String,
        /// The name in the certificate that should replace it.
        offered: String,
    },
    /// The number of the newest revocation list cannot be written. The list itself is in force.
    #[error("the number of the revocation list cannot be kept in {}: {source}; an older list is not noticed after a restart", path.display())]
    ListNumberUnwritable { path: PathBuf, source: io::Error },
    /// A document that has come over the network cannot be written. It is in force.
    #[error("the document cannot be kept in {}: {source}; after a restart this host gets it from another member", path.display())]
    ListUnwritable { path: PathBuf, source: io::Error },
    /// A document that has come over the network cannot be written. It is in force.
    #[error("the document cannot be kept in {}: {source}; after a restart this host gets it from another member", path.display())]
    DocumentUnwritable { path: PathBuf, source: io::Error },
    /// The number of the newest revocation list cannot be read. Without it an older list would admit revoked
    /// certificates again.
    #[error(
        "the number of the newest revocation list cannot be read from {}: {source}; make it readable, or delete it",
        path.display()
    )]
    ListNumberUnreadable { path: PathBuf, source: io::Error },
    #[error("the document {} of the group's authorities is not accepted: {fault}", path.display())]
    Trust { path: PathBuf, fault: ListFault },
    #[error("the policy {} is not accepted: {fault}", path.display())]
    Policy { path: PathBuf, fault: ListFault },
    #[error("the revocation list {} is not accepted: {fault}", path.display())]
    List { path: PathBuf, fault: ListFault },
}

/// The reason for which a revocation list is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListFault {
    #[error("it is malformed; copy it again from the group")]
    Malformed,
    #[error("the group's authority did not sign it; copy it again from the group")]
    BadSignature,
    /// The list is older than the one in use, so it would admit revoked certificates again.
    #[error("it is number {offered}, older than number {held}, which was seen already; copy the newest from the group")]
    Older {
        /// The number of the list in use.
        held: u64,
        /// The number of the list that should replace it.
        offered: u64,
    },
    /// The key of a former authority cannot make its list the newest for ever.
    #[error("its number {0} belongs to a later authority than the one that signed it; copy the newest from the group")]
    LaterAuthority(u64),
    /// Two lists have the same number, because the group directory was copied and both copies revoked.
    #[error("it differs from another list with the same number {0}; revoke from one copy of the group only")]
    Forked(u64),
    /// A group keeps its datum: two halves of it would mean different places by one cell.
    #[error("it names an authority with another datum, and a group keeps its own; copy it again from the group")]
    OtherDatum,
}
