//! Checks of this machine: clock, socket buffers, open files, ports and the identity's files.

use std::net::{TcpListener, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_api::Status;
use roost_identity::Identity;
use roost_wire::{Endpoint, NodeId, Scheme, format_node};
use rustix::process::{Resource, getrlimit};
use socket2::{Domain, Socket, Type};

use super::super::date;
use super::{Finding, Verdict};

/// Earliest right time: 2025-01-01.
const EARLIEST_CLOCK: Duration = Duration::from_secs(1_735_689_600);

/// Least receive buffer: a quarter of a second at 32 Mbit/s.
const MIN_RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// Least limit of open files for a busy daemon.
const MIN_OPEN_FILES: u64 = 1024;

/// Largest difference of two right clocks, seconds.
const MAX_CLOCK_DIFFERENCE_S: u64 = 60;

/// Remedy for a wrong clock.
const SET_CLOCK: &str = "set the clock (timedatectl set-ntp true): certificates are valid by it";

/// Clock of a hub, with the seconds by which it is ahead of this host's.
struct HubClock<'a> {
    node: NodeId,
    name: Option<&'a str>,
    ahead_s: i64,
}

/// Checks the clock by itself and against those of the daemon's hubs.
pub(super) fn check_clock(status: Option<&Status>) -> Finding {
    let now = SystemTime::now();
    if now < UNIX_EPOCH + EARLIEST_CLOCK {
        return Finding::fail("clock", format!("it shows {}, which is past", date(now)), SET_CLOCK);
    }
    let Some(HubClock { node, name, ahead_s }) = status.and_then(find_farthest_clock) else {
        return Finding::ok("clock", date(now));
    };
    let apart = ahead_s.unsigned_abs();
    let found = match ahead_s {
        0 => format!("{}, as that of {}", date(now), format_node(node, name)),
        1.. => format!("{}, {apart} s behind that of {}", date(now), format_node(node, name)),
        _ => format!("{}, {apart} s ahead of that of {}", date(now), format_node(node, name)),
    };
    if apart <= MAX_CLOCK_DIFFERENCE_S {
        return Finding::ok("clock", found);
    }
    let fix = "set whichever is wrong, here or there (timedatectl set-ntp true): certificates are valid by it";
    Finding::warn("clock", found, fix)
}

/// Finds the clock of a hub that differs most.
fn find_farthest_clock(status: &Status) -> Option<HubClock<'_>> {
    let home = status.hub.iter().filter_map(|hub| {
        Some(HubClock { node: hub.node, name: Some(hub.name.as_str()), ahead_s: hub.clock_ahead_s? })
    });
    let others = status
        .hubs
        .iter()
        .filter_map(|hub| Some(HubClock { node: hub.node?, name: hub.name.as_deref(), ahead_s: hub.clock_ahead_s? }));
    home.chain(others).max_by_key(|clock| clock.ahead_s.unsigned_abs())
}

/// Checks that UDP sockets get a buffer for bursts.
pub(super) fn check_buffers() -> Finding {
    match set_receive_buffer(MIN_RECEIVE_BUFFER_BYTES) {
        Ok(bytes) if bytes >= MIN_RECEIVE_BUFFER_BYTES => {
            Finding::ok("buffers", format!("UDP sockets get {bytes} bytes"))
        }
        Ok(bytes) => {
            let fix = format!(
                "sysctl -w net.core.rmem_max={} net.core.wmem_max={}",
                4 * MIN_RECEIVE_BUFFER_BYTES,
                4 * MIN_RECEIVE_BUFFER_BYTES
            );
            Finding::warn("buffers", format!("UDP sockets get {bytes} bytes: bursts may be lost"), fix)
        }
        Err(error) => Finding::fail("buffers", format!("no UDP socket can be made: {error}"), "allow UDP sockets"),
    }
}

/// Asks the system for a receive buffer and returns the size that it grants.
fn set_receive_buffer(bytes: usize) -> std::io::Result<usize> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    socket.set_recv_buffer_size(bytes)?;
    // The kernel doubles the size that is set, for its own bookkeeping (socket(7)).
    Ok(socket.recv_buffer_size()? / 2)
}

/// Checks the limit of open files.
pub(super) fn check_open_files() -> Finding {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < MIN_OPEN_FILES => {
            let fix = "raise it: LimitNOFILE=65536 in the unit, or ulimit -n 65536";
            Finding::warn("open files", format!("at most {limit} here"), fix)
        }
        Some(limit) => Finding::ok("open files", format!("at most {limit} here")),
        None => Finding::ok("open files", "no limit here"),
    }
}

/// Checks that an endpoint is free.
pub(super) fn check_port(endpoint: &Endpoint) -> Finding {
    for host in &endpoint.hosts {
        if let Err(error) = listen(endpoint.scheme, host, endpoint.port) {
            let fix = "stop whoever has it (ss -lunpt shows), or choose another port or an address of this host";
            return Finding::fail("port", format!("{endpoint} cannot be listened on: {error}"), fix);
        }
    }
    Finding::ok("port", format!("{endpoint} is free"))
}

fn listen(scheme: Scheme, host: &str, port: u16) -> std::io::Result<()> {
    let addresses: Vec<_> = (host, port).to_socket_addrs()?.collect();
    match scheme {
        Scheme::Tcp => TcpListener::bind(&addresses[..]).map(drop),
        Scheme::Udp | Scheme::Quic => UdpSocket::bind(&addresses[..]).map(drop),
    }
}

/// Checks that an identity is readable by its owner only and valid now.
pub(super) fn check_identity(dir: &Path) -> Vec<Finding> {
    let key = check_key(&dir.join("identity.key"));
    if key.verdict == Verdict::Fail {
        // Nothing else can be read or used either.
        return vec![key];
    }
    let mut findings = vec![key];
    match Identity::load(dir) {
        Ok(identity) => findings.push(check_dates(&identity)),
        Err(error) => {
            let fix = "put the directory that roost group issue wrote there, unchanged";
            findings.push(Finding::fail("identity", error.to_string(), fix));
        }
    }
    findings
}

fn check_key(path: &Path) -> Finding {
    match std::fs::metadata(path) {
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            let mode = found.permissions().mode() & 0o777;
            let found = format!("others may read {} (mode {mode:03o})", path.display());
            Finding::fail("key", found, format!("chmod 600 {}", path.display()))
        }
        Ok(_) => Finding::ok("key", "only its owner may read it"),
        Err(error) => {
            let fix = "name the identity's directory, and run as the daemon's user";
            Finding::fail("key", format!("cannot look at {}: {error}", path.display()), fix)
        }
    }
}

fn check_dates(identity: &Identity) -> Finding {
    let now = SystemTime::now();
    match identity.check_validity(now) {
        Ok(()) => {
            let until = date(identity.not_after());
            Finding::ok(
                "identity",
                format!("{} {} of {}, valid until {until}", identity.role(), identity.name(), identity.group()),
            )
        }
        Err(error) if now < identity.not_before() => {
            let behind = identity.not_before().duration_since(now).unwrap_or_default().as_secs();
            Finding::fail("identity", format!("{error}; the clock is {behind} s behind it"), SET_CLOCK)
        }
        Err(error) => Finding::fail("identity", error.to_string(), "set the clock, or renew it: roost group renew"),
    }
}

/// Remedy for a daemon that waits for its certificate to become valid; `None` if it has no such reason.
pub(super) fn explain_waiting(dir: &Path) -> Option<String> {
    let error = Identity::load(dir).ok()?.check_validity(SystemTime::now()).err()?;
    Some(format!(
        "if it runs, it waits until its certificate is valid by this host's clock, which shows {}: {error}",
        date(SystemTime::now())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_found() {
        let taken = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let endpoint = format!("udp://127.0.0.1:{}", taken.local_addr().unwrap().port());
        let endpoint: Endpoint = endpoint.parse().unwrap();
        assert_eq!(check_port(&endpoint).verdict, Verdict::Fail);
        drop(taken);
        assert_eq!(check_port(&endpoint).verdict, Verdict::Ok);
    }

    #[test]
    fn granted_buffer_is_not_doubled() {
        // Every system grants this much.
        assert_eq!(set_receive_buffer(16 * 1024).unwrap(), 16 * 1024);
    }

    #[test]
    fn exposed_key_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity.key");
        std::fs::write(&path, "").unwrap();
        for (mode, verdict) in [(0o644, Verdict::Fail), (0o600, Verdict::Ok)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(check_key(&path).verdict, verdict);
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(check_identity(dir.path()).len(), 1, "one fault, one finding");
        assert_eq!(check_key(&dir.path().join("missing")).verdict, Verdict::Fail);
    }
}
