//! The bodies of requests and answers, besides the answer itself.

use roost_identity::{Document, POLICY, REVOCATIONS};
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
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Holdings {
    #[serde(default)]
    pub(crate) revocations: u64,
    #[serde(default)]
    pub(crate) policy: u64,
}

impl Holdings {
    /// The number of the document of this kind; without limit for kinds that the member does not know.
    pub(crate) fn number(&self, kind: &str) -> u64 {
        match kind {
            REVOCATIONS => self.revocations,
            POLICY => self.policy,
            _ => u64::MAX,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ErrorBody {
    pub(crate) error: String,
    pub(crate) code: String,
}
