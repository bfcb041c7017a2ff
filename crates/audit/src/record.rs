//! One audit record, as it happens and as it stands in a line.

use std::fmt::Write as _;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The longest line, bytes. Details that do not fit are left out.
pub(crate) const MAX_LINE: usize = 16 * 1024;

/// The digest before the first line of all.
pub(crate) const NO_LINE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// The kind of an event. A later version may write others.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AuditKind {
            $($(#[$doc])* $kind,)*
        }

        impl AuditKind {
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    Started = "started",
    Stopped = "stopped",
    /// A member's connection to this daemon is up.
    MemberJoined = "member-joined",
    MemberLeft = "member-left",
    CertificateRefused = "certificate-refused",
    RequestGranted = "request-granted",
    /// The group's policy does not let a member do something, once or so many times.
    ActionDenied = "action-denied",
    /// A newer document of the group is in force.
    DocumentTaken = "document-taken",
    InvitationMade = "invitation-made",
    InvitationEnded = "invitation-ended",
    InvitationRefused = "invitation-refused",
    /// A device waits for the operator's approval.
    JoinAsked = "join-asked",
    JoinDenied = "join-denied",
    CertificateIssued = "certificate-issued",
    CertificateRenewed = "certificate-renewed",
    RenewalRefused = "renewal-refused",
    CertificateRevoked = "certificate-revoked",
    LabelsChanged = "labels-changed",
    PolicySigned = "policy-signed",
    /// Records were lost because the disk or the queue was full.
    RecordsDropped = "records-dropped",
    /// A line that was cut short by a crash was removed.
    LineTorn = "line-torn",
}

/// Something that happened, before it has its place in the chain.
#[derive(Clone, Debug)]
pub struct AuditEvent {
    time: SystemTime,
    kind: AuditKind,
    who: Option<Who>,
    details: Map<String, Value>,
}

/// The member that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A record as it stands in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    /// RFC 3339, UTC, to the millisecond.
    pub time: String,
    pub sequence: u64,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
    /// SHA-256 of the line before, without its newline, hexadecimal; zeros in the first record.
    pub previous: String,
}

impl AuditEvent {
    pub fn new(kind: AuditKind) -> Self {
        Self { time: SystemTime::now(), kind, who: None, details: Map::new() }
    }

    #[must_use]
    pub fn about(mut self, id: impl ToString, name: Option<&str>) -> Self {
        self.who = Some(Who { id: id.to_string(), name: name.map(str::to_owned) });
        self
    }

    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// The line of this event, without its newline.
    pub(crate) fn line(&self, sequence: u64, previous: &str) -> String {
        let mut record = AuditRecord {
            time: humantime::format_rfc3339_millis(self.time).to_string(),
            sequence,
            kind: self.kind.name().to_owned(),
            who: self.who.clone(),
            details: self.details.clone(),
            previous: previous.to_owned(),
        };
        // A record has only strings as keys, so it always becomes JSON.
        let line = serde_json::to_string(&record).unwrap_or_default();
        if line.len() < MAX_LINE {
            return line;
        }
        record.details = Map::from_iter([("left_out_bytes".to_owned(), line.len().into())]);
        record.who = record.who.map(|who| Who { id: who.id.chars().take(64).collect(), name: None });
        serde_json::to_string(&record).unwrap_or_default()
    }
}

pub(crate) fn digest(line: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(line) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
