//! Errors that stop an experiment before or during its run.

use std::io;
use std::path::Path;

use roost_lab::{Interrupt, LabError};

use super::plan::PlanError;

/// An experiment did not run, or not to its end. Measurements up to then are in the results folder.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan, or something it names, is wrong. Nothing was started.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The topology is wrong; a sentence with file and line. Nothing was started.
    #[error("{0}")]
    Topology(String),
    #[error(transparent)]
    Lab(LabError),
    /// The system lacks something, such as one of Roost's programs.
    #[error("{0}")]
    Missing(String),
    /// Records cannot be written: the disk is full or gone. Another run would fail in the same way.
    #[error("{0}")]
    Records(String),
    #[error("{0}")]
    Failed(String),
    /// Ctrl-C came before any measurement.
    #[error("interrupted; everything has been stopped")]
    Interrupted,
}

impl From<LabError> for RunError {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Interrupted => Self::Interrupted,
            other => Self::Lab(other),
        }
    }
}

impl RunError {
    /// Ends a run whose user asked for its end.
    pub(super) fn check(interrupt: &Interrupt) -> Result<(), Self> {
        if interrupt.is_set() { Err(Self::Interrupted) } else { Ok(()) }
    }

    /// An error in writing a run's records.
    pub(crate) fn records(path: &Path, error: &io::Error) -> Self {
        match Self::file("write", path, error) {
            Self::Failed(why) => Self::Records(why),
            other => other,
        }
    }

    /// An error of a file; `doing` is "read", "create" and the like.
    pub fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        // The working folder is that of the run, which the user may not know, so the path is made absolute.
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self::Failed(format!("cannot {doing} {}: {error}", whole.display()))
    }
}
