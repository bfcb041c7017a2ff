//! A root file system of its own for a program, from an unpacked folder.
//!
//! The program sees the folder under an overlay in memory, which ends with the program: nothing that it writes
//! reaches the folder. `/proc`, a few devices and the names of the lab's hosts are added, and its own folder of the
//! results at [`RESULTS`].

use std::ffi::CStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, unmount};
use rustix::process::{chdir, pivot_root};
use rustix::thread::UnshareFlags;
use tempfile::TempDir;

use super::kernel;

/// The folder of the results of a program with a root of its own.
pub const RESULTS: &str = "/results";
/// The socket of the daemon of its host, if there is one.
pub const SOCKET: &str = "/run/roost.sock";

/// Folders that are furnished. As links they would lead to files of the system's own root.
const FURNISHED: [&str; 6] = ["/proc", "/dev", "/tmp", "/etc", "/run", RESULTS];
/// The most memory for what a program writes, and for its `/dev` with `/dev/shm`.
const SPACE: &CStr = c"mode=0755,size=1g";
const DEVICE_SPACE: &CStr = c"mode=0755,size=256m";
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const NAMES: [&str; 3] = ["/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf"];

/// A root file system, and what a program sees in it besides.
#[derive(Debug)]
pub struct ProgramRoot {
    folder: PathBuf,
    results: PathBuf,
    socket: Option<PathBuf>,
    /// A place for mounts that only the program sees.
    space: TempDir,
}

impl ProgramRoot {
    /// Prepares a root from an unpacked folder. `results` is the folder for the program's own files, and `socket`
    /// that of a daemon; all of them are absolute.
    ///
    /// # Errors
    /// Fails when no temporary folder can be made.
    pub fn new(folder: &Path, results: &Path, socket: Option<&Path>) -> io::Result<Self> {
        let space = tempfile::tempdir()?;
        let (folder, results, socket) = (folder.to_owned(), results.to_owned(), socket.map(ToOwned::to_owned));
        Ok(Self { folder, results, socket, space })
    }

    /// Gives the calling thread this root, in mounts of its own; programs that it starts have it, too. Call it on
    /// a thread that ends afterwards.
    ///
    /// # Errors
    /// Fails when the system refuses it; the message names the step.
    pub fn enter(&self) -> io::Result<()> {
        refuse_links(&self.folder)?;
        let names = NAMES.map(|file| (file, fs::read(file).ok()));
        let space = self.space.path();
        kernel::unshare(UnshareFlags::NEWNS)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        step("make memory for it", mount("tmpfs", space, "tmpfs", flags, Some(SPACE)))?;
        let root = self.overlay(space)?;
        // No link of the tree knows this name.
        let name = tempfile::Builder::new().prefix(".emulate-").rand_bytes(16).tempdir_in(&root)?.keep();
        step("change to it", pivot_root(&root, &name))?;
        step("change to it", chdir("/"))?;
        let old = Path::new("/").join(name.file_name().unwrap_or_default());
        furnish(&old)?;
        self.bind_own(&old)?;
        for (file, text) in names {
            if let Some(text) = text {
                let written = write_name(Path::new(file), &text);
                written
                    .map_err(|error| named("name hosts in /etc (its files must be of your user and group)", &error))?;
            }
        }
        step("leave the old one", unmount(&old, UnmountFlags::DETACH))?;
        fs::remove_dir(&old)
    }

    fn overlay(&self, space: &Path) -> io::Result<PathBuf> {
        // A link without the letters that an overlay's options give a meaning.
        let lower = space.join("lower");
        symlink(&self.folder, &lower)?;
        let [upper, work, root] = ["upper", "work", "root"].map(|name| space.join(name));
        for folder in [&upper, &work, &root] {
            fs::create_dir(folder)?;
        }
        fs::set_permissions(&upper, fs::Permissions::from_mode(0o755))?;
        let options = |more: &str| {
            let [lower, upper, work] = [&lower, &upper, &work].map(|path| path.display());
            std::ffi::CString::new(format!("lowerdir={lower},upperdir={upper},workdir={work}{more}"))
        };
        let over = |more: &str| {
            let options = options(more).map_err(io::Error::other)?;
            mount("overlay", &root, "overlay", MountFlags::NOSUID | MountFlags::NODEV, Some(options.as_c_str()))
                .map_err(io::Error::from)
        };
        // In a namespace of a user, an overlay keeps its notes in the user's attributes.
        let laid = over(",userxattr").or_else(|_| over(""));
        laid.map_err(|error| named("lay memory over it (overlays of users need Linux 5.11)", &error))?;
        Ok(root)
    }

    fn bind_own(&self, old: &Path) -> io::Result<()> {
        let old = |path: &Path| old.join(path.strip_prefix("/").unwrap_or(path));
        fs::create_dir_all(RESULTS)?;
        step("show the results", mount_bind(old(&self.results), RESULTS))?;
        let Some(socket) = &self.socket else { return Ok(()) };
        fs::create_dir_all("/run")?;
        write_name(Path::new(SOCKET), b"")?;
        step("show the daemon's socket", mount_bind(old(socket), SOCKET))
    }
}

/// Fails if a folder that is furnished is a link in this tree.
fn refuse_links(tree: &Path) -> io::Result<()> {
    let is_link = |name: &&&str| tree.join(name.trim_start_matches('/')).is_symlink();
    FURNISHED.iter().find(is_link).map_or(Ok(()), |name| {
        Err(io::Error::other(format!("{name} is a link in {}: make it a folder, or remove it", tree.display())))
    })
}

fn furnish(old: &Path) -> io::Result<()> {
    for folder in ["/proc", "/dev", "/tmp", "/etc"] {
        fs::create_dir_all(folder)?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let proc = mount("proc", "/proc", "proc", flags, None);
    // Refused in containers that hide parts of /proc.
    step("show /proc", proc.or_else(|_| mount_bind_recursive(old.join("proc"), "/proc")))?;
    step("make /dev", mount("tmpfs", "/dev", "tmpfs", MountFlags::NOSUID | MountFlags::NOEXEC, Some(DEVICE_SPACE)))?;
    for device in DEVICES {
        let (from, to) = (old.join("dev").join(device), Path::new("/dev").join(device));
        fs::write(&to, "")?;
        // A system may lack one of them.
        let _ = mount_bind(from, to);
    }
    for (link, target) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        symlink(format!("/proc/self/{target}"), Path::new("/dev").join(link))?;
    }
    fs::create_dir("/dev/shm")?;
    for folder in ["/tmp", "/dev/shm"] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o1777))?;
    }
    Ok(())
}

/// Replaces a file, which may be a link.
fn write_name(file: &Path, text: &[u8]) -> io::Result<()> {
    // The file may not exist.
    let _ = fs::remove_file(file);
    fs::File::create_new(file)?.write_all(text)
}

fn step(what: &str, result: rustix::io::Result<()>) -> io::Result<()> {
    result.map_err(|error| named(what, &error.into()))
}

fn named(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_furnished_folders_are_refused() {
        for name in FURNISHED {
            let tree = tempfile::tempdir().unwrap();
            refuse_links(tree.path()).unwrap();
            symlink("/.emulate-old/etc", tree.path().join(&name[1..])).unwrap();
            let root = ProgramRoot::new(tree.path(), Path::new("/nowhere"), None).unwrap();
            let told = root.enter().unwrap_err().to_string();
            assert!(told.starts_with(&format!("{name} is a link in")), "{told}");
        }
    }
}
