//! Writes what people look at into the folder of a run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::csv;
use super::metrics::Metrics;
use super::read::{ReadError, read};

/// What was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The page to open first.
    pub page: PathBuf,
    /// All files, in the order in which they were written.
    pub files: Vec<PathBuf>,
    /// What was not as it should be in what was read, one sentence each.
    pub remarks: Vec<String>,
}

/// Why a report was not written, or not all of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The run could not be read; nothing was written.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A folder holds no run that could be shown; nothing was written.
    #[error("there is no run under {}: name a folder that `emulate run` or `emulate sweep` wrote", folder.display())]
    NoRun {
        /// Which.
        folder: PathBuf,
    },
    /// A file could not be written; those before it were.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Reads the run in `folder` and writes beside it `*.csv`, `figures/*.svg` and
/// `index.html`. Nothing else in the folder is touched; files of an earlier
/// report are replaced whole, never half.
///
/// # Errors
/// When the run cannot be read or a file not be written.
pub fn write(folder: &Path) -> Result<Written, WriteError> {
    let results = read(folder)?;
    let metrics = Metrics::of(&results);
    let mut files = Vec::new();
    for (name, text) in csv::files(&results.run, &metrics) {
        files.push(put(&folder.join(name), &text)?);
    }
    Ok(Written { page: folder.join("index.html"), files, remarks: results.remarks })
}

/// Writes one file: first under another name, so that no reader sees half of it.
pub(super) fn put(path: &Path, text: &str) -> Result<PathBuf, WriteError> {
    let failed = |source| WriteError::Io { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.part"));
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is left of it helps nobody; why it failed is told.
        fs::remove_file(&beside).ok();
    }
    written.map_err(failed)?;
    Ok(path.to_owned())
}
