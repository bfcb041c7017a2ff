//! Names of hosts: files mounted over the system's own, visible only in the sandbox.
//!
//! Names are looked up in `/etc/hosts` alone. A system may ask a daemon first, which answers on a Unix socket
//! and knows the outside world: `/etc/nsswitch.conf` names those of systemd, and the C library asks `nscd` if
//! its socket exists.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;

use roost_topology::Topology;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use tempfile::NamedTempFile;

const HOSTS: &str = "/etc/hosts";
const RESOLVER: &str = "/etc/resolv.conf";
const SWITCH: &str = "/etc/nsswitch.conf";
/// The folder of the socket of `nscd`.
const CACHE: &str = "/run/nscd";
/// A lab has no name server. Without this, a lookup of an unknown name would time out slowly.
const NO_SERVER: &str = "# No name server in a lab.\noptions attempts:1 timeout:1\n";

/// The names, which last as long as this value.
#[derive(Debug)]
pub(crate) struct LabNames {
    _covers: Vec<Cover>,
}

impl LabNames {
    /// Makes the hosts of a topology known as `name`, at the address of their first interface, and as
    /// `name-net`, like Emulab.
    ///
    /// # Errors
    /// Fails when the system has no such file, or refuses to mount over it.
    pub(crate) fn publish(topology: &Topology) -> io::Result<Self> {
        let lab = lines(topology);
        let text = without(&fs::read_to_string(HOSTS)?, &lab) + "\n" + &lab;
        let mut covers = vec![Cover::with_text(HOSTS, &text)?];
        // If one of these does not exist, there is nothing to hide.
        covers.extend(Cover::with_text(RESOLVER, NO_SERVER));
        covers.extend(fs::read_to_string(SWITCH).and_then(|text| Cover::with_text(SWITCH, &files_only(&text))));
        covers.extend(Cover::with_nothing(CACHE));
        Ok(Self { _covers: covers })
    }
}

/// A mount over a file or folder.
#[derive(Debug)]
struct Cover(&'static str);

impl Cover {
    fn with_text(path: &'static str, text: &str) -> io::Result<Self> {
        // The mount keeps the file when its name is removed, at the end of this block.
        let mut file = NamedTempFile::new()?;
        file.write_all(text.as_bytes())?;
        fs::set_permissions(file.path(), Permissions::from_mode(0o644))?;
        mount_bind(file.path(), path)?;
        Ok(Self(path))
    }

    fn with_nothing(path: &'static str) -> io::Result<Self> {
        // As above, the mount keeps the folder.
        mount_bind(tempfile::tempdir()?.path(), path)?;
        Ok(Self(path))
    }
}

impl Drop for Cover {
    fn drop(&mut self) {
        // If this fails, it stays until the sandbox ends.
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}

fn lines(topology: &Topology) -> String {
    let mut text = String::new();
    let mut named = vec![false; topology.hosts.len()];
    for net in &topology.nets {
        for member in &net.members {
            let (Some(address), Some(host)) = (member.address, topology.hosts.get(member.host)) else { continue };
            // Writing to a string does not fail.
            let _ = match std::mem::replace(&mut named[member.host], true) {
                false => writeln!(text, "{address} {0} {0}-{1}", host.name, net.name),
                true => writeln!(text, "{address} {}-{}", host.name, net.name),
            };
        }
    }
    text
}

/// The machine's lines without the lab's names. Many systems have a line with their own name, and a program
/// would get both addresses, in either order.
fn without(machine: &str, lab: &str) -> String {
    let taken: BTreeSet<&str> = lab.lines().flat_map(|line| line.split_whitespace().skip(1)).collect();
    let is_free = |name: &&str| !taken.iter().any(|taken| taken.eq_ignore_ascii_case(name));
    let mut text = String::new();
    for line in machine.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(address) = words.next() else { continue };
        let names: Vec<&str> = words.filter(is_free).collect();
        if !names.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{address} {}", names.join(" "));
        }
    }
    text
}

/// The machine's switch file, with hosts looked up in files only.
fn files_only(machine: &str) -> String {
    let is_of_hosts = |line: &&str| line.trim_start().starts_with("hosts:");
    let others = machine.lines().filter(|line| !is_of_hosts(line));
    others.chain(["hosts: files"]).fold(String::new(), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use roost_topology::addresses;
    use roost_topology::testing;

    use super::*;

    #[test]
    fn lab_name_overrides_machine_hosts() {
        let machine = "# Own.\n127.0.0.1 localhost # and more\n127.0.1.1 H0.example H0\n\n::1 h1\n";
        assert_eq!(
            without(machine, "10.1.1.2 h0 h0-net0\n10.1.1.3 h1\n"),
            "127.0.0.1 localhost\n127.0.1.1 H0.example\n"
        );
    }

    #[test]
    fn hosts_resolve_from_files_only() {
        let machine = "passwd: files systemd\n hosts:  mymachines resolve [!UNAVAIL=return] dns\nnetworks: files\n";
        assert_eq!(files_only(machine), "passwd: files systemd\nnetworks: files\nhosts: files\n");
    }

    #[test]
    fn host_has_name_per_interface() {
        let topology = addresses::assign(&testing::nets(3, &[&[0, 1], &[1, 2]])).unwrap();
        let expected = "10.1.1.2 h0 h0-net0\n10.1.1.3 h1 h1-net0\n10.1.2.2 h1-net1\n10.1.2.3 h2 h2-net1\n";
        assert_eq!(lines(&topology), expected);
    }
}
