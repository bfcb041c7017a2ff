//! What this machine tells: clock, ports, limits, the identity's files.

use std::net::{TcpListener, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_control::Status;
use roost_identity::Identity;
use roost_proto::{Endpoint, NodeId, Scheme, format_node};
use rustix::process::{Resource, getrlimit};
use socket2::{Domain, Socket, Type};

use super::super::date;
use super::{Finding, Verdict};

/// No clock can rightly show less: the first of January 2025.
const EARLIEST: Duration = Duration::from_secs(1_735_689_600);

/// What a socket's receive buffer should be able to hold: a quarter of a
/// second at 32 Mbit/s.
const BUFFER_BYTES: usize = 1 << 20;

/// Below this a daemon runs out of file descriptors before it is busy.
const FILES: u64 = 1024;

/// Two clocks that are farther apart, seconds, are not both right.
const MOST_APART_S: u64 = 60;

/// A hub whose clock is known, and the seconds by which it is ahead.
type OtherClock<'a> = (NodeId, Option<&'a str>, i64);

/// Judges the clock by itself, and beside those of the daemon's hubs.
pub(super) fn clock(status: Option<&Status>) -> Finding {
    let now = SystemTime::now();
    if now < UNIX_EPOCH + EARLIEST {
        let fix = "set the clock (timedatectl set-ntp true): certificates are valid by it";
        return Finding::fail("clock", format!("it shows {}, which is past", date(now)), fix);
    }
    let Some((node, name, ahead)) = status.and_then(farthest) else { return Finding::ok("clock", date(now)) };
    let apart = ahead.unsigned_abs();
    let found = match ahead {
        0 => format!("{}, as that of {}", date(now), format_node(node, name)),
        1.. => format!("{}, {apart} s behind that of {}", date(now), format_node(node, name)),
        _ => format!("{}, {apart} s ahead of that of {}", date(now), format_node(node, name)),
    };
    if apart <= MOST_APART_S {
        return Finding::ok("clock", found);
    }
    let fix = "set whichever is wrong, here or there (timedatectl set-ntp true): certificates are valid by it";
    Finding::warn("clock", found, fix)
}

/// The hub whose clock differs most.
fn farthest(status: &Status) -> Option<OtherClock<'_>> {
    let home = status.hub.iter().filter_map(|hub| Some((hub.node, Some(hub.name.as_str()), hub.clock_ahead_s?)));
    let others = status.hubs.iter().filter_map(|hub| Some((hub.node?, hub.name.as_deref(), hub.clock_ahead_s?)));
    home.chain(others).max_by_key(|(_, _, ahead)| ahead.unsigned_abs())
}

/// The remedy for a daemon that does not answer, if its identity says why it waits.
pub(super) fn waiting(dir: &Path) -> Option<String> {
    let error = Identity::load(dir).ok()?.check_validity(SystemTime::now()).err()?;
    Some(format!(
        "if it runs, it waits until its certificate is valid by this host's clock, which shows {}: {error}",
        date(SystemTime::now())
    ))
}

/// Whether sockets get the buffers that bursts need.
pub(super) fn buffers() -> Finding {
    match set_receive_buffer(BUFFER_BYTES) {
        Ok(bytes) if bytes >= BUFFER_BYTES => Finding::ok("buffers", format!("UDP sockets get {bytes} bytes")),
        Ok(bytes) => {
            let fix =
                format!("sysctl -w net.core.rmem_max={} net.core.wmem_max={}", 4 * BUFFER_BYTES, 4 * BUFFER_BYTES);
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

/// Whether enough files may be open.
pub(super) fn files() -> Finding {
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < FILES => {
            let fix = "raise it: LimitNOFILE=65536 in the unit, or ulimit -n 65536";
            Finding::warn("open files", format!("at most {limit} here"), fix)
        }
        Some(limit) => Finding::ok("open files", format!("at most {limit} here")),
        None => Finding::ok("open files", "no limit here"),
    }
}

/// Whether an endpoint could be listened on.
pub(super) fn port(endpoint: &Endpoint) -> Finding {
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

/// Whether an identity can be used here and now.
pub(super) fn identity(dir: &Path) -> Vec<Finding> {
    let mut findings = vec![key(&dir.join("identity.key"))];
    if findings.iter().any(|finding| finding.verdict == Verdict::Fail) {
        // The rest cannot be read, or not used, for the same reason.
        return findings;
    }
    match Identity::load(dir) {
        Ok(identity) => findings.push(dates(&identity)),
        Err(error) => {
            let fix = "put the directory that roost group issue wrote there, unchanged";
            findings.push(Finding::fail("identity", error.to_string(), fix));
        }
    }
    findings
}

fn key(path: &Path) -> Finding {
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

fn dates(identity: &Identity) -> Finding {
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
            Finding::fail(
                "identity",
                format!("{error}; the clock is {behind} s behind it"),
                "set the clock (timedatectl set-ntp true)",
            )
        }
        Err(error) => Finding::fail("identity", error.to_string(), "set the clock, or renew it: roost group renew"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_found() {
        let taken = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let endpoint = format!("udp://127.0.0.1:{}", taken.local_addr().unwrap().port());
        let endpoint: Endpoint = endpoint.parse().unwrap();
        assert_eq!(port(&endpoint).verdict, Verdict::Fail);
        drop(taken);
        assert_eq!(port(&endpoint).verdict, Verdict::Ok);
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
            assert_eq!(key(&path).verdict, verdict);
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(identity(dir.path()).len(), 1, "one fault, one finding");
        assert_eq!(key(&dir.path().join("missing")).verdict, Verdict::Fail);
    }
}
