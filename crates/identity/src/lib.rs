//! The group of a Roost network: private CA, node keys and certificates, revocation, and the one policy that decides
//! which remotes are accepted.
//!
//! A [`group::Group`] is the operator's side: a directory with the CA, from which bundles are issued and revoked. An
//! [`Identity`] is a host's side: one loaded bundle. A [`Policy`] verifies a remote's certificate before any data is
//! accepted, in the same way for all transports. A certificate that it does not accept gives a [`Refusal`], which
//! travels to the remote as a TLS alert, so that both sides can name the reason. [`tls`] makes rustls configurations
//! around the policy.
//!
//! ```
//! use std::time::SystemTime;
//! use roost_identity::{Policy, group::{Group, Validity}};
//! use roost_wire::{Role, RoleSet};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let group = Group::init(&dir.path().join("group"), "alpha")?;
//! group.issue("uav7", Role::Node, Validity::default(), &dir.path().join("uav7"))?;
//!
//! let identity = roost_identity::Identity::load(&dir.path().join("uav7"))?;
//! let policy = Policy::new(&identity)?;
//! let remote = policy.verify(&identity.certificate_der(), RoleSet::ALL, SystemTime::now())?;
//! assert_eq!(remote.name, "uav7");
//! # Ok(())
//! # }
//! ```
#![allow(missing_docs, reason = "only crates of this workspace import it")]

mod answer;
mod bundle;
mod certificate;
mod document;
mod enrolment;
mod error;
mod files;
mod fingerprint;
pub mod group;
mod group_key;
mod invitation_address;
mod key_exchange;
mod policy;
mod refusal;
mod request;
mod revocation;
mod sealed_file;
mod subject;
pub mod tls;
mod trust;

pub use answer::{Answer, Document, POLICY, REVOCATIONS, SealedKey, TRUST};
pub use bundle::Identity;
pub use certificate::{CertificateStatus, read_unverified};
pub use document::SignedDocument;
pub use enrolment::{Enrolment, EnrolmentError, Owner, RenewalKey};
pub use error::{ListFault, LoadError};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use group_key::{GroupKey, KEY_BYTES};
pub use invitation_address::{AddressError, InvitationAddress, Token, check_authority};
pub use key_exchange::{KeyExchange, UnknownKeyExchange};
pub use policy::{NumberedDocument, Policy, TakenDocument};
pub use refusal::{Refusal, Side};
pub use request::{MAX_REQUEST_BYTES, RequestError, SigningRequest};
pub use sealed_file::{FileContent, SealError, SealedFor};
pub use subject::{MAX_NAME_BYTES, NameError};
