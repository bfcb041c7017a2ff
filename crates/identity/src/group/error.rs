//! Errors of an operation on a group, in one sentence each.

use std::io;
use std::path::PathBuf;

use roost_wire::Role;

use crate::error::LoadError;
use crate::invitation_address::AddressError;
use crate::refusal::Refusal;
use crate::request::RequestError;
use crate::subject::NameError;

/// An operation on a group failed. Nothing has changed unless the variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    #[error(transparent)]
    Name(#[from] NameError),
    /// A directory or file of that name exists already. Nothing is ever overwritten.
    #[error("{} exists already: choose another place or remove it", path.display())]
    Exists { path: PathBuf },
    #[error("there is no group in {}: run roost group init {} --name NAME", path.display(), path.display())]
    NoGroup {
        /// The directory that should hold the group.
        path: PathBuf,
    },
    /// A file of the group or of a bundle cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The CA's key does not belong to its certificate.
    #[error("the key {} does not belong to the group's certificate: restore it from a backup", path.display())]
    WrongKey { path: PathBuf },
    #[error("cannot use the group's index {}: {source}", path.display())]
    Index {
        path: PathBuf,
        /// The system's error, or one that names the damaged line.
        source: io::Error,
    },
    /// The revocation list in the group's directory is not its newest.
    #[error(
        "the revocation list {} is number {found}, but number {expected} was signed already: restore the newest one",
        path.display()
    )]
    ListTooOld {
        path: PathBuf,
        /// The number of the list in the directory.
        found: u64,
        /// The greatest number of a list in the index.
        expected: u64,
    },
    /// The list has `MAX_REVOKED` entries, the most that a host reads.
    #[error("the revocation list is full: make a new group and issue its members' bundles anew")]
    ListFull,
    /// A file or directory cannot be written. All that the operation has written is removed, except that the index may
    /// list a certificate that nobody has.
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The requested validity is empty, begins before 1970 or ends after that of the CA.
    #[error("the validity asked for is not possible: {0}")]
    Validity(&'static str),
    #[error("the group has issued no certificate with the name, node id or serial number {0:?}: see roost group show")]
    NotIssued(String),
    /// Several members have an id that begins with these digits.
    #[error("{which} may mean {members}: give as much of the id as tells them apart")]
    Several {
        /// The digits with which the operator meant one member.
        which: String,
        /// The names and ids of the members, to choose from.
        members: String,
    },
    #[error("every certificate of {0:?} is revoked already, or ended long ago")]
    AlreadyRevoked(String),
    /// The group would not issue this certificate again.
    #[error("the certificate {} cannot be renewed: {refusal}", path.display())]
    NotRenewable { path: PathBuf, refusal: Refusal },
    #[error("the group's key {} is sealed: give its passphrase, at the prompt or with --passphrase-file FILE", path.display())]
    Sealed { path: PathBuf },
    #[error("the passphrase does not open the group's key {}", path.display())]
    WrongPassphrase { path: PathBuf },
    #[error("the group's key {} is sealed already", path.display())]
    SealedAlready { path: PathBuf },
    #[error("the group's key {} is not sealed", path.display())]
    NotSealed { path: PathBuf },
    #[error("the passphrase is too short: use {0} characters or more")]
    ShortPassphrase(usize),
    #[error("{0:?} is no hub: expected its endpoints, separated by commas, such as udp://10.0.0.1:7700")]
    NotHub(String),
    #[error("the last change of the group's authority is not finished: run roost group rollover finish first")]
    RolloverUnderWay,
    #[error("the group's authority is not being changed: run roost group rollover start first")]
    NoRollover,
    /// Members have no certificate of the new authority.
    #[error("the end would shut out {count} members who have not renewed: {members}; wait, or give --force")]
    ShutOut {
        count: usize,
        /// The first of them, by name and id.
        members: String,
    },
    #[error("a group stores at most {1} {0}")]
    TooMany(&'static str, usize),
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Join(#[from] JoinRefusal),
    #[error("the invitation is not possible: {0}")]
    Invitation(&'static str),
    #[error("no invitation has the id {0:?}: see roost group invitations")]
    NotInvited(String),
    #[error("no request waits from {0:?}: see roost group requests")]
    NotWaiting(String),
    #[error("cannot use the group's invitations {}: {source}", path.display())]
    Invitations { path: PathBuf, source: io::Error },
    #[error("another authority serves the group in {}: stop that one first", path.display())]
    Served { path: PathBuf },
    #[error("making the certificate failed: {0}")]
    Crypto(#[from] rcgen::Error),
}

/// The reason for which a device may not join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinRefusal {
    #[error("the authority does not know this invitation: check it, or ask for a new one")]
    UnknownToken,
    #[error("the invitation has ended: ask for a new one")]
    Expired,
    #[error("the invitation was used already: ask for a new one")]
    UsedUp,
    #[error(
        "the invitation is for {invited}, and the request is for {requested}: leave out the name, or ask for another invitation"
    )]
    OtherName { invited: String, requested: String },
    #[error("the invitation is for the role {invited}, and the request is for {requested}: ask for another invitation")]
    OtherRole { invited: Role, requested: Role },
    #[error("another member has the name {0}: choose another one with --name")]
    NameTaken(String),
    #[error("neither the invitation nor the request has a name that can be used: give one with --name")]
    NoName,
    #[error("the key belongs to a revoked certificate: remove it and join with a new one")]
    KeyRevoked,
    #[error("too many requests wait for approval: try again later")]
    TooManyWaiting,
    #[error("the group's operator has denied the request")]
    Denied,
}

impl JoinRefusal {
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownToken => "unknown-invitation",
            Self::Expired => "expired",
            Self::UsedUp => "used",
            Self::OtherName { .. } => "other-name",
            Self::OtherRole { .. } => "other-role",
            Self::NameTaken(_) => "name-taken",
            Self::NoName => "no-name",
            Self::KeyRevoked => "revoked",
            Self::TooManyWaiting => "busy",
            Self::Denied => "denied",
        }
    }
}
