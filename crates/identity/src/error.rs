//! Why a bundle or a revocation list cannot be used.

use std::io;
use std::path::PathBuf;

use crate::refusal::Refusal;

/// Why a host's bundle or revocation list cannot be used. Nothing has changed
/// when it is returned: what was held before is still held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file is missing or the system does not let us read it.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is larger than any that a group writes.
    #[error("{} is larger than {limit} bytes: it is not the file that a group writes", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The file is not PEM, or not what belongs there.
    #[error("{} does not hold exactly one {expected} in PEM form: copy the bundle again", path.display())]
    NotPem {
        /// Which file.
        path: PathBuf,
        /// What belongs there.
        expected: &'static str,
    },
    /// The file does not hold the group's multicast key.
    #[error("{} does not hold {bytes} bytes as hexadecimal digits: copy the bundle again", path.display())]
    NotHex {
        /// Which file.
        path: PathBuf,
        /// How many.
        bytes: usize,
    },
    /// Others may read the private key.
    #[error(
        "others than its owner can use the private key {} (mode {mode:03o}): run chmod 600 {}",
        path.display(), path.display()
    )]
    KeyExposed {
        /// Which file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The private key is no P-256 key, or not that of the certificate.
    #[error(
        "the private key {} does not belong to the certificate {}: copy both from the same bundle",
        key.display(), certificate.display()
    )]
    KeyMismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
    },
    /// The CA certificate cannot be used.
    #[error("{} is not the certificate of a group: {reason}", path.display())]
    Authority {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Our own certificate would be refused everywhere, whatever the time.
    #[error("the certificate {} cannot be used with {}: {refusal}", path.display(), authority.display())]
    Certificate {
        /// The certificate's file.
        path: PathBuf,
        /// The CA's file.
        authority: PathBuf,
        /// Why.
        refusal: Refusal,
    },
    /// Our own certificate's time is over.
    #[error("our certificate {} expired on {not_after}: issue a new one, or set this host's clock", path.display())]
    Expired {
        /// The certificate's file.
        path: PathBuf,
        /// Its last second.
        not_after: String,
    },
    /// Our own certificate's time has not come.
    #[error("our certificate {} is valid only from {not_before}: wait, or set this host's clock", path.display())]
    NotYetValid {
        /// The certificate's file.
        path: PathBuf,
        /// Its first second.
        not_before: String,
    },
    /// It is no renewal of the certificate in use.
    #[error(
        "the certificate {} is of {offered} and another key or role than that of {held} in use: to renew one, run \
         roost group renew; to become another member, restart",
        path.display()
    )]
    NotRenewed {
        /// The certificate's file.
        path: PathBuf,
        /// The name in the certificate in use.
        held: String,
        /// The name in the certificate that was to replace it.
        offered: String,
    },
    /// The number of the newest revocation list cannot be kept.
    #[error("the number of the revocation list cannot be kept in {}: {source}; an older list is not noticed after a restart", path.display())]
    ListNumberUnwritable {
        /// The file that is to keep the number.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The revocation list is not accepted.
    #[error("the revocation list {} is not accepted: {fault}", path.display())]
    List {
        /// Which file.
        path: PathBuf,
        /// Why.
        fault: ListFault,
    },
}

/// Why a revocation list is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListFault {
    /// It cannot be parsed.
    #[error("it is malformed; copy it again from the group")]
    Malformed,
    /// The group did not sign it.
    #[error("the group's authority did not sign it; copy it again from the group")]
    BadSignature,
    /// An older list than the one held would bring revoked certificates back.
    #[error("it is number {offered}, older than number {held}, which was seen already; copy the newest from the group")]
    Older {
        /// The number of the list held.
        held: u64,
        /// Its number.
        offered: u64,
    },
    /// Two lists with one number: the group directory was copied and used twice.
    #[error("it differs from another list with the same number {0}; revoke from one copy of the group only")]
    Forked(u64),
}
