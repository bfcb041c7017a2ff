//! How a command can end other than with a result.

use super::value::TclValue;

/// A command that gives no result, and why.
#[derive(Debug)]
pub(crate) enum TclCompletion {
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// `return`: the value is the procedure's.
    Return(TclValue),
    /// `exit`: the rest of the file is not read.
    Exit,
    /// An error that `catch` may catch.
    Error(Box<TclError>),
    /// An error that ends the reading: the file is refused.
    Refused(Box<TclError>),
}

/// What is wrong, and where.
#[derive(Clone, Debug, Default)]
pub(crate) struct TclError {
    /// One sentence.
    pub message: String,
    /// The line of the innermost command; 0 while it is not known.
    pub line: u32,
    /// The procedure it happened in, and the line that called it.
    pub within: Option<(String, u32)>,
}

impl TclError {
    /// Something wrong, at a place that its command knows.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Something wrong on `line`.
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
    /// The file is refused for this, whatever it would catch.
    pub(crate) fn refuse(message: impl Into<String>) -> Self {
        Self::Refused(Box::new(TclError::new(message)))
    }

    /// The fault, if it is one.
    pub(crate) fn error_mut(&mut self) -> Option<&mut TclError> {
        match self {
            Self::Error(fault) | Self::Refused(fault) => Some(fault),
            _ => None,
        }
    }
}

/// Fails with a sentence.
pub(crate) fn fail<T>(message: impl Into<String>) -> Result<T, TclCompletion> {
    Err(TclError::new(message).into())
}

/// What a command gives.
pub(crate) type TclResult = Result<TclValue, TclCompletion>;
