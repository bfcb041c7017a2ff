//! The other programs of Roost, which are installed beside this one.

use std::path::{Path, PathBuf};

use super::error::RunError;

/// The programs that experiments run.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Those beside this program.
    pub(super) fn beside_this() -> Result<Self, RunError> {
        let own = std::env::current_exe();
        let own = own.map_err(|error| RunError::Failed(format!("cannot tell where I am: {error}")))?;
        Ok(Self { folder: own.parent().unwrap_or(Path::new("/")).to_owned() })
    }

    /// The path of one of them.
    pub(super) fn path(&self, name: &str) -> Result<PathBuf, RunError> {
        let path = self.folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
        Err(RunError::Missing(format!(
            "{name} is not in {}, where this program is: install it there, or build all of them with `cargo build --bins`",
            self.folder.display()
        )))
    }
}
