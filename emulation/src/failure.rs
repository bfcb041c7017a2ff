//! How a command ends: the exit codes, and the sentence that goes with them.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use roost_control::error::plain;
use roost_emulation::lab::LabError;
use roost_emulation::topology::LoadError;
use roost_terminal::{ErrorReport, Output, OutputError};

/// The exit codes, which scripts rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureCode {
    /// Anything that has no code of its own.
    Failed = 1,
    /// The command line, the topology or the plan is wrong.
    BadInput = 2,
    /// This system lacks something: user namespaces, a device, a program.
    Missing = 3,
    /// Done, but the emulation did not keep up: the figures cannot be trusted.
    Invalid = 4,
    /// A link is not as it is described.
    Linktest = 5,
    /// A program cannot be run: the exit code of shells for it.
    CannotRun = 126,
    /// A program is not there: the same.
    NoProgram = 127,
    /// Ctrl-C.
    Interrupted = 130,
}

impl FailureCode {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 8] = [
        Self::Failed,
        Self::BadInput,
        Self::Missing,
        Self::Invalid,
        Self::Linktest,
        Self::CannotRun,
        Self::NoProgram,
        Self::Interrupted,
    ];

    /// The code's name in JSON.
    const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::BadInput => "bad-input",
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::Linktest => "linktest",
            Self::CannotRun => "cannot-run",
            Self::NoProgram => "no-program",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// One sentence that says what is wrong and what to do.
    #[error("{message}")]
    Message {
        /// The exit code.
        code: FailureCode,
        /// The sentence.
        message: String,
    },
    /// A program that was run, or this one inside its sandbox, ended with
    /// this code, and said itself why.
    #[error("it ended with {0:?}")]
    ProgramExit(ExitCode),
    /// Whoever read the output has gone, which is no error of anybody.
    #[error("the reader of the output has gone")]
    ClosedPipe,
}

/// What every command returns.
pub(crate) type CommandResult<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with a code of its own.
    pub(crate) fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self::Message { code, message: message.into() }
    }

    /// A failure without a code of its own.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(FailureCode::Failed, message)
    }

    /// The command line, the topology or the plan is wrong.
    pub(crate) fn bad_input(message: impl Into<String>) -> Self {
        Self::new(FailureCode::BadInput, message)
    }

    /// What went wrong with a file: `doing` is "read", "create" and the like.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::failed(format!("cannot {doing} {}: {error}", path.display()))
    }

    /// The code with which the command ends.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Message { code, .. } => ExitCode::from(*code as u8),
            Self::ProgramExit(code) => *code,
            Self::ClosedPipe => ExitCode::SUCCESS,
        }
    }

    /// Says it to whoever started the command.
    pub(crate) fn report(&self, output: Output) {
        if let Self::Message { code, message } = self {
            output.report_error(ErrorReport { kind: code.name(), exit: *code as u8, message: &plain(message) });
        }
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

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self::bad_input(error.to_string())
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let code = match &error {
            LabError::Topology(_) => FailureCode::BadInput,
            _ if error.is_of_the_system() => FailureCode::Missing,
            _ => FailureCode::Failed,
        };
        Self::new(code, error.to_string())
    }
}
