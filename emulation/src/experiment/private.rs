//! What nobody else is to see and nothing is to leave behind: the keys of a
//! run's group, and sockets.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::error::RunError;

/// Where it is: below the results folder, which is the working folder
/// meanwhile. Paths of sockets have room for 107 bytes, so these are relative.
pub(super) const RUN_FOLDER: &str = "run";

/// Memory in the place of a folder, which only the sandbox sees: however the
/// run ends, nothing of it is ever on a disk.
#[derive(Debug)]
pub(super) struct Private(());

impl Private {
    /// Makes it, inside a sandbox.
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
        // At worst it stays until the sandbox ends, and then an empty folder.
        let _ = unmount(RUN_FOLDER, UnmountFlags::DETACH);
        let _ = fs::remove_dir(RUN_FOLDER);
    }
}
