//! What this machine tells: clock, ports, limits, the identity's files.

use std::net::{TcpListener, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_identity::Identity;
use roost_proto::{Endpoint, Scheme};
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

/// Whether the clock can be right at all.
pub(super) fn clock() -> Finding {
    let now = SystemTime::now();
    if now < UNIX_EPOCH + EARLIEST {
        let fix = "set the clock (timedatectl set-ntp true): certificates are valid by it";
        return Finding::fail("clock", format!("it shows {}, which is past", date(now)), fix);
    }
    Finding::ok("clock", format!("{} UTC", date(now)))
}

/// Whether sockets get the buffers that bursts need.
pub(super) fn buffers() -> Finding {
    let got = Socket::new(Domain::IPV4, Type::DGRAM, None).and_then(|socket| {
        socket.set_recv_buffer_size(BUFFER_BYTES)?;
        socket.recv_buffer_size()
    });
    match got {
        Ok(bytes) if bytes >= BUFFER_BYTES => Finding::ok("buffers", format!("UDP sockets get {bytes} bytes")),
        Ok(bytes) => {
            let fix =
                format!("sysctl -w net.core.rmem_max={} net.core.wmem_max={}", 4 * BUFFER_BYTES, 4 * BUFFER_BYTES);
            Finding::warn("buffers", format!("UDP sockets get {bytes} bytes: bursts may be lost"), fix)
        }
        Err(error) => Finding::fail("buffers", format!("no UDP socket can be made: {error}"), "allow UDP sockets"),
    }
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
        Err(error) => Finding::fail("identity", error.to_string(), "issue it again: roost group issue"),
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
    fn a_key_that_others_may_read_is_found() {
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
