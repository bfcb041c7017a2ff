//! Endings of a command: the exit codes and their messages.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use roost_api::error::plain;
use roost_experiment::RunError;
use roost_lab::LabError;
use roost_ns::LoadError;
use roost_terminal::{ErrorReport, Output, OutputError};

/// The exit codes, which scripts rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureCode {
    /// Any failure without a code of its own.
    Failed = 1,
    /// The command line, the topology or the plan is wrong.
    BadInput = 2,
    /// The system lacks something: user namespaces, a device, a program.
    Missing = 3,
    /// The run is complete, but the emulation did not keep up: the figures cannot be trusted.
    Invalid = 4,
    /// A link does not match its description.
    Linktest = 5,
    /// A program cannot be run: the exit code of shells for it.
    CannotRun = 126,
    /// A program does not exist: the exit code of shells for it.
    NoProgram = 127,
    Interrupted = 130,
}

impl FailureCode {
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

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A sentence that says what is wrong and what to do.
    #[error("{message}")]
    Message { code: FailureCode, message: String },
    /// A program that was run, or this one inside its sandbox, ended with this code and has reported the error
    /// itself.
    #[error("it ended with {0:?}")]
    ProgramExit(ExitCode),
    /// The reader of the output has closed it, which is no error.
    #[error("the reader of the output has gone")]
    ClosedPipe,
}

pub(crate) type CommandResult<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self::Message { code, message: message.into() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(FailureCode::Failed, message)
    }

    pub(crate) fn bad_input(message: impl Into<String>) -> Self {
        Self::new(FailureCode::BadInput, message)
    }

    /// An error of a file; `doing` is "read", "create" and the like.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::failed(format!("cannot {doing} {}: {error}", path.display()))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Message { code, .. } => ExitCode::from(*code as u8),
            Self::ProgramExit(code) => *code,
            Self::ClosedPipe => ExitCode::SUCCESS,
        }
    }

    pub(crate) fn report(&self, output: Output) {
        if let Self::Message { code, message } = self {
            output.report_error(ErrorReport::new(code.name(), *code as u8, &plain(message)));
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
            LabError::Interrupted => FailureCode::Interrupted,
            _ if error.is_of_the_system() => FailureCode::Missing,
            _ => FailureCode::Failed,
        };
        Self::new(code, error.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let code = match &error {
            RunError::Plan(_) | RunError::Topology(_) => FailureCode::BadInput,
            RunError::Missing(_) => FailureCode::Missing,
            RunError::Lab(error) if error.is_of_the_system() => FailureCode::Missing,
            RunError::Interrupted => FailureCode::Interrupted,
            _ => FailureCode::Failed,
        };
        Self::new(code, error.to_string())
    }
}
