//! Secret and temporary files: the keys of a run's group, and sockets.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::error::RunError;

/// The folder, inside the results folder, which is the working folder during the run. Paths of sockets are
/// limited to 107 bytes, so these are relative.
pub(super) const RUN_FOLDER: &str = "run";

/// A memory file system over the folder, visible only in the sandbox: nothing in it ever reaches a disk,
/// however the run ends.
#[derive(Debug)]
pub(super) struct Private(());

impl Private {
    /// Mounts it; call this inside a sandbox.
    pub(super) fn make() -> Result<Self, RunError> {
        let folder = Path::new(RUN_FOLDER);
        let failed = |error: std::io::Error| RunError::file("make", folder, &error);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("tmpfs", folder, "tmpfs", flags, Some(c"mode=0700")).map_err(|error| failed(error.into()))?;
        Ok(Self(()))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // If this fails, an empty folder is left when the sandbox ends.
        let _ = unmount(RUN_FOLDER, UnmountFlags::DETACH);
        let _ = fs::remove_dir(RUN_FOLDER);
    }
}
