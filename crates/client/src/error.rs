use std::io;
use std::time::Duration;

use roost_api::{ClientError, Code, TransferSummary};

/// An operation did not succeed. It prints as one sentence for people.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The daemon refuses, has gone away, or is not there.
    #[error(transparent)]
    Daemon(#[from] ClientError),
    /// A transfer ended before its data was complete.
    #[error("{error}")]
    Incomplete {
        error: roost_api::Error,
        /// The part that came, if the transfer had begun.
        summary: Option<Box<TransferSummary>>,
    },
    /// An object is longer than the program allows.
    #[error("the object has more than the {0} bytes that are allowed: save it to a file, or allow more")]
    TooLong(usize),
    /// A file of this host cannot be read or written.
    #[error("{path}: {source}")]
    File { path: String, source: io::Error },
}

impl Error {
    /// The daemon's code; `None` if no daemon has answered.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Daemon(ClientError::Api(error)) | Self::Incomplete { error, .. } => Some(error.code),
            _ => None,
        }
    }

    /// The exit code with which the command `roost` ends after this error: 2 a wrong query, 3 no daemon, 4 not found,
    /// 5 refused or busy, 6 too late, 7 incomplete, 1 anything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Daemon(error) => error.exit_code(),
            Self::Incomplete { error, .. } => error.code.exit_code(),
            Self::TooLong(_) | Self::File { .. } => 1,
        }
    }

    /// The time after which a new attempt may succeed, as a busy provider tells it.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Daemon(ClientError::Api(error)) | Self::Incomplete { error, .. } => {
                error.retry_after_ms.map(|millis| Duration::from_millis(u64::from(millis)))
            }
            _ => None,
        }
    }

    /// The words of the provider's program, if that declined.
    pub fn provider_reason(&self) -> Option<&str> {
        match self {
            Self::Daemon(ClientError::Api(error)) | Self::Incomplete { error, .. } => error.provider_reason.as_deref(),
            _ => None,
        }
    }

    /// The daemon broke off a transfer without a word.
    pub(crate) fn broken_off() -> Self {
        let error = roost_api::Error::new(Code::Incomplete, "the daemon went away in mid-transfer");
        Self::Incomplete { error, summary: None }
    }
}
