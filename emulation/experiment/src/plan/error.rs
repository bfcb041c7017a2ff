//! Mistakes in a plan.

use std::fmt;
use std::path::{Path, PathBuf};

/// A plan's mistakes. Nothing has been started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    pub file: PathBuf,
    /// The line, from 1; 0 if it is unknown.
    pub line: usize,
    pub message: String,
    /// Further mistakes, in the order of the file.
    pub others: Vec<Self>,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.message)?,
            line => write!(f, "{}:{line}: {}", self.file.display(), self.message)?,
        }
        self.others.iter().try_for_each(|other| write!(f, "\n{other}"))
    }
}

impl std::error::Error for PlanError {}

impl PlanError {
    pub(crate) fn new(file: &Path, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into(), others: Vec::new() }
    }
}

/// The mistakes of a plan, collected until all of it is read.
#[derive(Debug, Default)]
pub(crate) struct PlanErrors(Vec<PlanError>);

impl PlanErrors {
    /// Returns the value, or records the mistake and returns a substitute, so that the rest can be read.
    pub(crate) fn value_or<T>(&mut self, result: Result<T, PlanError>, instead: T) -> T {
        result.unwrap_or_else(|error| {
            self.0.push(error);
            instead
        })
    }

    pub(crate) fn record_error(&mut self, result: Result<(), PlanError>) {
        self.value_or(result, ());
    }

    /// All mistakes as one error, if there are any.
    pub(crate) fn into_result(self) -> Result<(), PlanError> {
        self.joined().map_or(Ok(()), Err)
    }

    pub(crate) fn joined(mut self) -> Option<PlanError> {
        self.0.sort_by_key(|mistake| mistake.line);
        self.0.dedup();
        let mut all = self.0.into_iter();
        all.next().map(|first| PlanError { others: all.collect(), ..first })
    }
}
