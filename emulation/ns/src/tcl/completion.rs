//! The ways in which a command ends without a result.

use super::value::TclValue;

/// The end of a command without a result.
#[derive(Debug)]
pub(crate) enum TclCompletion {
    Break,
    Continue,
    /// `return`, with the procedure's result.
    Return(TclValue),
    /// `exit`: the rest of the file is skipped.
    Exit,
    Error(Box<TclError>),
    /// An error that nothing catches: the file is refused.
    Refused(Box<TclError>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TclError {
    pub message: String,
    /// The line of the innermost command; 0 until it is known.
    pub line: u32,
    /// The procedure that contains the command, and the line that called it.
    pub within: Option<(String, u32)>,
}

impl TclError {
    /// An error whose position the command adds.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    pub(crate) fn at(line: u32, message: impl Into<String>) -> Self {
        Self { message: message.into(), line, within: None }
    }
}

impl From<TclError> for TclCompletion {
    fn from(fault: TclError) -> Self {
        Self::Error(Box::new(fault))
    }
}

impl TclCompletion {
    /// Refuses the file in a way that `catch` does not catch.
    pub(crate) fn refuse(message: impl Into<String>) -> Self {
        Self::Refused(Box::new(TclError::new(message)))
    }

    pub(crate) fn error_mut(&mut self) -> Option<&mut TclError> {
        match self {
            Self::Error(fault) | Self::Refused(fault) => Some(fault),
            _ => None,
        }
    }
}

pub(crate) fn fail<T>(message: impl Into<String>) -> Result<T, TclCompletion> {
    Err(TclError::new(message).into())
}

pub(crate) type TclResult = Result<TclValue, TclCompletion>;
