//! What went wrong, in one sentence and one code.

use roost_wire::messages::Reason;
use serde::{Deserialize, Serialize};

/// The body of every answer that is not a success, under the key `error`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// For programs.
    pub code: Code,
    /// For people: one sentence.
    pub message: String,
    /// When it may be worth asking again, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u32>,
}

impl Error {
    /// An error with a code and a sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after_ms: None }
    }
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Code {
    /// The query is malformed; nothing was done.
    Usage,
    /// There is no such endpoint on this daemon.
    NoSuchEndpoint,
    /// Nobody offers it there.
    NotFound,
    /// The hub is young and may not have heard of everyone.
    NotYetKnown,
    /// Every provider is at its limit, or this daemon is.
    Busy,
    /// The other side will not do it.
    Refused,
    /// The time allowed has passed, or no hub was reached in it.
    TimedOut,
    /// Nobody on this side offers it, and the super nodes above cannot be asked.
    UnreachableAbove,
    /// The transfer began and did not end, or what came is damaged.
    Incomplete,
    /// The daemon is on its way out.
    Leaving,
    /// A fault of the daemon.
    Internal,
    /// A code of a later version.
    #[serde(other)]
    Unknown,
}

impl Code {
    /// The HTTP status that goes with it.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Usage => 400,
            Self::Refused => 403,
            Self::NoSuchEndpoint | Self::NotFound => 404,
            Self::Incomplete => 502,
            Self::NotYetKnown | Self::Busy | Self::Leaving => 503,
            Self::TimedOut | Self::UnreachableAbove => 504,
            Self::Internal | Self::Unknown => 500,
        }
    }

    /// The code with which the command line ends.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Usage | Self::NoSuchEndpoint => 2,
            Self::NotFound | Self::NotYetKnown => 4,
            Self::Busy | Self::Refused => 5,
            Self::TimedOut | Self::UnreachableAbove => 6,
            Self::Incomplete => 7,
            Self::Leaving => 3,
            Self::Internal | Self::Unknown => 1,
        }
    }
}

impl From<Reason> for Code {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::NotFound | Reason::TooSlow => Self::NotFound,
            Reason::NotYetKnown => Self::NotYetKnown,
            Reason::Busy | Reason::TooMany | Reason::Saturated => Self::Busy,
            Reason::UnreachableAbove => Self::UnreachableAbove,
            Reason::Unreachable | Reason::TimedOut => Self::TimedOut,
            Reason::Leaving => Self::Leaving,
            // `Reason` may grow: what is not known here is a refusal too.
            _ => Self::Refused,
        }
    }
}

/// A message for people: without the system's number for it, as in
/// `Address already in use (os error 98)`.
pub fn plain(message: &str) -> String {
    let mut parts = message.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// An [`Error`] as it stands on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Always [`crate::SCHEMA`].
    pub schema: u32,
    /// What went wrong.
    pub error: Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_code_is_read_as_unknown() {
        let error: Error = serde_json::from_str(r#"{"code":"from-the-future","message":"m"}"#).unwrap();
        assert_eq!(error.code, Code::Unknown);
        assert_eq!(error.code.exit_code(), 1);
    }

    #[test]
    fn system_error_number_is_stripped() {
        assert_eq!(plain("cannot: in use (os error 98); stop it"), "cannot: in use; stop it");
        assert_eq!(plain("fine"), "fine");
    }

    #[test]
    fn unreachable_above_has_own_code() {
        let code = Code::from(Reason::UnreachableAbove);
        assert_eq!(serde_json::to_value(code).unwrap(), "unreachable-above");
        assert_eq!((code.http_status(), code.exit_code()), (504, 6));
    }

    #[test]
    fn every_wire_reason_has_exit_code() {
        for reason in [Reason::NotFound, Reason::Busy, Reason::NoTransport, Reason::TimedOut, Reason::Protocol] {
            assert_ne!(Code::from(reason).exit_code(), 0, "{reason:?}");
        }
    }
}
