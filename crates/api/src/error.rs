//! Errors of the local API: a code and one sentence.

use roost_wire::messages::Reason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of every answer that is not a success, under the key `error`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub code: Code,
    /// A sentence for people.
    pub message: String,
    /// The earliest time at which a new attempt may succeed, milliseconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u32>,
    /// The words of the provider's program, if that declined; `message` quotes them. At most 200 bytes, without control
    /// characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_reason: Option<String>,
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after_ms: None, provider_reason: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Code {
    /// The query is malformed. The daemon did nothing.
    Usage,
    /// There is no such endpoint on this daemon.
    NoSuchEndpoint,
    /// No node there offers the service.
    NotFound,
    /// The hub started less than a lease ago and may not know every node.
    NotYetKnown,
    /// Every provider is at its limit, or this daemon is.
    Busy,
    Refused,
    /// The time allowed has passed, or no hub was reached in it.
    TimedOut,
    /// No node below this hub's root offers the service, and the super nodes above do not answer.
    UnreachableAbove,
    /// The transfer began and did not end, or the data is damaged.
    Incomplete,
    Leaving,
    Internal,
    #[serde(other)]
    Unknown,
}

impl Code {
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
            // `Reason` may grow: a reason that is not known here is a refusal too.
            _ => Self::Refused,
        }
    }
}

/// Removes the system's error number, as in `Address already in use (os error 98)`.
pub fn plain(message: &str) -> String {
    let mut parts = message.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or("", |(_, rest)| rest))
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    pub schema: u32,
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
