//! The end of a command: the exit codes and their sentences.

use std::io;
use std::path::{Path, PathBuf};

use roost_api::ClientError;
use roost_api::error::plain;
use roost_terminal::{ErrorReport, Output, OutputError};

use crate::args::default_sockets;

/// The exit codes, which scripts rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// Anything without a code of its own.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// No daemon answers on the socket.
    Unreachable = 3,
    /// No node there offers the service.
    NotFound = 4,
    /// The remote refuses: busy, not allowed, no common transport.
    Refused = 5,
    TimedOut = 6,
    /// The data is incomplete or fails its digest.
    Damaged = 7,
    /// A service's settings or files are wrong, so systemd does not start it again.
    Configuration = 78,
    Interrupted = 130,
}

impl Code {
    /// The code with this number.
    fn from_number(number: u8) -> Self {
        let all = [Self::Usage, Self::Unreachable, Self::NotFound, Self::Refused, Self::TimedOut, Self::Damaged];
        all.into_iter().find(|code| *code as u8 == number).unwrap_or(Self::Failed)
    }

    /// The code's name in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::NotFound => "not-found",
            Self::Refused => "refused",
            Self::TimedOut => "timed-out",
            Self::Damaged => "incomplete",
            Self::Configuration => "configuration",
            Self::Interrupted => "interrupted",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A sentence that says what is wrong and what to do.
    #[error("{message}")]
    Reported {
        code: Code,
        /// The kind of failure, for scripts: finer than the exit code.
        kind: &'static str,
        message: String,
        /// The words of a provider's program that declined.
        provider_reason: Option<String>,
    },
    /// The reader of the output has gone, which is no error.
    #[error("the reader of the output has gone")]
    ClosedPipe,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with a code of its own.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self::Reported { code, kind: code.name(), message: message.into(), provider_reason: None }
    }

    /// A failure of one of the kinds that daemons tell apart.
    pub(crate) fn of_kind(code: roost_api::Code, message: impl Into<String>) -> Self {
        let (code, kind) = (Code::from_number(code.exit_code()), kind(code));
        Self::Reported { code, kind, message: message.into(), provider_reason: None }
    }

    /// A daemon's error.
    pub(crate) fn api(error: &roost_api::Error) -> Self {
        let message = match error.retry_after_ms {
            Some(wait) => format!("{}; try again in about {} s", error.message, wait.div_ceil(1000).max(1)),
            None => error.message.clone(),
        };
        let (code, kind) = (Code::from_number(error.code.exit_code()), kind(error.code));
        Self::Reported { code, kind, message, provider_reason: error.provider_reason.clone() }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Reported { code, .. } => *code as u8,
            Self::ClosedPipe => 0,
        }
    }

    /// Writes the failure to standard error.
    pub(crate) fn report(&self, output: Output) {
        if let Self::Reported { code, kind, message, provider_reason } = self {
            let message = plain(message);
            let report = ErrorReport::new(kind, *code as u8, &message);
            output.report_error(ErrorReport { provider_reason: provider_reason.as_deref(), ..report });
        }
    }

    /// A failure without a code of its own.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Code::Failed, message)
    }

    /// A wrong command line that only the command itself could see.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// An error of a file: `doing` is "read", "create" and the like.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::failed(format!("cannot {doing} {}: {error}", path.display()))
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::ClosedPipe => Self::ClosedPipe,
            OutputError::Write(_) => Self::failed(error.to_string()),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Api(error) => Self::api(error),
            ClientError::Unreachable { socket, source } => Self::new(Code::Unreachable, unreachable(socket, source)),
            _ => Self::new(Code::from_number(error.exit_code()), error.to_string()),
        }
    }
}

fn unreachable(socket: &Path, source: &io::Error) -> String {
    let advice = match source.kind() {
        io::ErrorKind::PermissionDenied => "you may not open it: join its group or use sudo",
        io::ErrorKind::InvalidInput => "its path is too long: 107 bytes are the most that the system allows",
        io::ErrorKind::NotFound => "there is no such socket: start the daemon, or name its socket with --socket",
        _ => "start the daemon, or name another socket with --socket",
    };
    format!("no daemon answers on {}; {advice}", looked_at(socket, &default_sockets()))
}

/// The socket, and with a default one the other places where none is either.
fn looked_at(socket: &Path, defaults: &[PathBuf]) -> String {
    let missing = defaults.iter().filter(|other| defaults.iter().any(|one| one == socket) && !other.exists());
    let others = missing.filter(|other| *other != socket);
    others.fold(socket.display().to_string(), |text, other| format!("{text} or {}", other.display()))
}

/// The name of a daemon's code, as its API writes it.
const fn kind(code: roost_api::Code) -> &'static str {
    use roost_api::Code as Api;
    match code {
        Api::Usage => "usage",
        Api::NoSuchEndpoint => "no-such-endpoint",
        Api::NotFound => "not-found",
        Api::NotYetKnown => "not-yet-known",
        Api::Busy => "busy",
        Api::Refused => "refused",
        Api::TimedOut => "timed-out",
        Api::UnreachableAbove => "unreachable-above",
        Api::Incomplete => "incomplete",
        Api::Leaving => "leaving",
        _ => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_error_names_sockets_tried() {
        let [user, system] = ["/nowhere/user", "/nowhere/system"].map(PathBuf::from);
        let defaults = [user.clone(), system];
        assert_eq!(looked_at(&user, &defaults), "/nowhere/user or /nowhere/system");
        assert_eq!(looked_at(Path::new("/nowhere/own"), &defaults), "/nowhere/own");
    }

    #[test]
    fn busy_error_tells_retry_time() {
        let mut error = roost_api::Error::new(roost_api::Code::Busy, "every provider is busy");
        assert_eq!(Failure::api(&error).to_string(), "every provider is busy");
        for (wait, words) in [(3_600, "in about 4 s"), (250, "in about 1 s"), (0, "in about 1 s")] {
            error.retry_after_ms = Some(wait);
            assert_eq!(Failure::api(&error).to_string(), format!("every provider is busy; try again {words}"));
        }
    }
}
