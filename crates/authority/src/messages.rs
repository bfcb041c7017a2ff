//! The bodies of requests and answers, besides the answer itself.

use roost_identity::{Document, POLICY, REVOCATIONS, TRUST};
use serde::{Deserialize, Serialize};

/// The longest body of a request, bytes.
pub(crate) const MAX_BODY: usize = 16 * 1024;

/// The longest answer, bytes: a full revocation list has 4 MiB.
pub(crate) const MAX_ANSWER: usize = 8 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JoinBody {
    pub(crate) token: String,
    pub(crate) request: String,
    /// The name that the device's host gives itself.
    #[serde(default)]
    pub(crate) host: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RenewBody {
    pub(crate) request: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WaitingBody {
    pub(crate) ticket: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DocumentsBody {
    pub(crate) documents: Vec<Document>,
}

/// The numbers of the documents that a member holds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Holdings {
    #[serde(default)]
    pub revocations: u64,
    #[serde(default)]
    pub policy: u64,
    #[serde(default)]
    pub trust: u64,
    /// If the answer may wait for a newer document.
    #[serde(default = "waits")]
    pub waits: bool,
}

fn waits() -> bool {
    true
}

impl Default for Holdings {
    fn default() -> Self {
        Self { revocations: 0, policy: 0, trust: 0, waits: true }
    }
}

impl Holdings {
    /// Notes the number of the document of this kind.
    pub fn set(&mut self, kind: &str, number: u64) {
        match kind {
            REVOCATIONS => self.revocations = number,
            POLICY => self.policy = number,
            TRUST => self.trust = number,
            _ => {}
        }
    }

    /// The number of the document of this kind; without limit for kinds that the member does not know.
    pub(crate) fn number(&self, kind: &str) -> u64 {
        match kind {
            REVOCATIONS => self.revocations,
            POLICY => self.policy,
            TRUST => self.trust,
            _ => u64::MAX,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ErrorBody {
    pub(crate) error: String,
    pub(crate) code: String,
}
