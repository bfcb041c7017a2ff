//! Why an experiment did not run, or not to its end.

use std::io;
use std::path::Path;

use super::plan::PlanError;
use crate::lab::LabError;

/// Why an experiment did not run, or not to its end. What had been measured
/// until then is in the results folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The plan, or what it names, is wrong. Nothing was started.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The topology is wrong; a sentence with file and line. Nothing was started.
    #[error("{0}")]
    Topology(String),
    /// There is no lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// This system lacks something, such as one of Roost's programs.
    #[error("{0}")]
    Missing(String),
    /// Records cannot be written: the disk is full, or has gone. Another run
    /// would not do better.
    #[error("{0}")]
    Records(String),
    /// Anything else; one sentence.
    #[error("{0}")]
    Failed(String),
    /// Ctrl-C before anything had been measured.
    #[error("interrupted; everything has been stopped")]
    Interrupted,
}

impl RunError {
    /// What went wrong with the records of a run.
    pub(crate) fn records(path: &Path, error: &io::Error) -> Self {
        match Self::file("write", path, error) {
            Self::Failed(why) => Self::Records(why),
            other => other,
        }
    }

    /// What went wrong with a file: `doing` is "read", "create" and the like.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        // A run's own folder is its working folder, which nobody else knows.
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self::Failed(format!("cannot {doing} {}: {error}", whole.display()))
    }
}
