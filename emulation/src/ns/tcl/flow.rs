//! How a command can end other than with a result.

use super::value::Value;

/// A command that gives no result, and why.
#[derive(Debug)]
pub(crate) enum Flow {
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// `return`: the value is the procedure's.
    Return(Value),
    /// `exit`: the rest of the file is not read.
    Exit,
    /// An error that `catch` may catch.
    Fault(Box<Fault>),
    /// An error that ends the reading: the file is refused.
    Refused(Box<Fault>),
}

/// What is wrong, and where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fault {
    /// One sentence.
    pub message: String,
    /// The line of the innermost command; 0 while it is not known.
    pub line: u32,
    /// The procedure it happened in, and the line that called it.
    pub within: Option<(String, u32)>,
}

impl Fault {
    /// Something wrong, at a place that its command knows.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Something wrong on `line`.
    pub(crate) fn at(line: u32, message: impl Into<String>) -> Self {
        Self { message: message.into(), line, within: None }
    }
}

impl From<Fault> for Flow {
    fn from(fault: Fault) -> Self {
        Self::Fault(Box::new(fault))
    }
}

impl Flow {
    /// The file is refused for this, whatever it would catch.
    pub(crate) fn refuse(message: impl Into<String>) -> Self {
        Self::Refused(Box::new(Fault::new(message)))
    }

    /// The fault, if it is one.
    pub(crate) fn fault_mut(&mut self) -> Option<&mut Fault> {
        match self {
            Self::Fault(fault) | Self::Refused(fault) => Some(fault),
            _ => None,
        }
    }
}

/// Fails with a sentence.
pub(crate) fn fail<T>(message: impl Into<String>) -> Result<T, Flow> {
    Err(Fault::new(message).into())
}

/// What a command gives.
pub(crate) type Outcome = Result<Value, Flow>;
