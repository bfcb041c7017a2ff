//! Reasons for a refused namespace, with advice.

use std::fs;
use std::io;

use rustix::io::Errno;

use crate::LabError;

/// The system's switches that keep users from making namespaces.
#[derive(Clone, Copy, Debug, Default)]
struct NamespaceSysctls {
    /// `kernel.unprivileged_userns_clone`, of Debian and its relatives.
    unprivileged: Option<u64>,
    /// `user.max_user_namespaces`.
    most: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, of Ubuntu.
    apparmor: Option<u64>,
}

pub(super) fn explain(what: &str, error: &io::Error) -> LabError {
    let switches = NamespaceSysctls {
        unprivileged: read("/proc/sys/kernel/unprivileged_userns_clone"),
        most: read("/proc/sys/user/max_user_namespaces"),
        apparmor: read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
    };
    LabError::System(format!("this system refuses {what} ({error}): {}", remedy(error, switches)))
}

fn read(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn remedy(error: &io::Error, switches: NamespaceSysctls) -> String {
    let set = |setting: &str| format!("run `sudo sysctl -w {setting}`, or this command with `sudo`");
    let number = error.raw_os_error();
    let is = |errno: Errno| number == Some(errno.raw_os_error());
    match switches {
        NamespaceSysctls { most: Some(0), .. } => set("user.max_user_namespaces=10000"),
        NamespaceSysctls { unprivileged: Some(0), .. } => set("kernel.unprivileged_userns_clone=1"),
        NamespaceSysctls { apparmor: Some(1), .. } if is(Errno::PERM) || is(Errno::ACCESS) => {
            set("kernel.apparmor_restrict_unprivileged_userns=0")
        }
        _ if is(Errno::NOSPC) => {
            "too many namespaces are in use; raise the limits user.max_*_namespaces (`sysctl -a | grep namespaces`)"
                .to_owned()
        }
        _ if is(Errno::INVAL) || is(Errno::NOSYS) => {
            "its kernel was built without them (CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS)".to_owned()
        }
        _ => "run this command with `sudo`; in a container, give it CAP_SYS_ADMIN and a seccomp profile that \
              allows unshare(2) (`--privileged`)"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: NamespaceSysctls = NamespaceSysctls { unprivileged: None, most: Some(96_365), apparmor: None };

    fn after(errno: Errno, switches: NamespaceSysctls) -> String {
        remedy(&errno.into(), switches)
    }

    #[test]
    fn refusal_names_disabled_switch() {
        let off = NamespaceSysctls { unprivileged: Some(0), ..NOTHING };
        assert!(after(Errno::PERM, off).contains("kernel.unprivileged_userns_clone=1"));
        let none = NamespaceSysctls { most: Some(0), ..NOTHING };
        assert!(after(Errno::NOSPC, none).contains("user.max_user_namespaces=10000"));
        let apparmor = NamespaceSysctls { apparmor: Some(1), unprivileged: Some(1), ..NOTHING };
        assert!(after(Errno::NOSPC, apparmor).contains("user.max_*_namespaces"));
        assert!(after(Errno::ACCESS, apparmor).contains("kernel.apparmor_restrict_unprivileged_userns=0"));
    }

    #[test]
    fn without_a_switch_the_errno_tells() {
        assert!(after(Errno::NOSPC, NOTHING).contains("user.max_*_namespaces"));
        assert!(after(Errno::INVAL, NOTHING).contains("CONFIG_USER_NS"));
        assert!(after(Errno::PERM, NOTHING).contains("--privileged"));
    }
}
