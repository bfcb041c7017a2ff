//! The threads of traffic agents, each inside its host, and the state that they share with their starter.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use roost_lab::{Lab, LabError};
use roost_topology::model::HostIndex;

use crate::error::RunError;

/// The interval at which a waiting thread checks whether to end.
const LOOK: Duration = Duration::from_millis(100);
/// The longest backlog of a sender before it skips the rest.
const MAX_LAG: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(500);
/// The largest UDP payload.
const MAX_PAYLOAD: usize = 65_507;

/// State that an agent's thread and its starter share.
#[derive(Debug, Default)]
pub(super) struct AgentState {
    pub(super) quits: AtomicBool,
    pub(super) sends: AtomicBool,
    pub(super) packet_bytes: AtomicU32,
    /// Time between packets; 0 means none.
    pub(super) gap_nanos: AtomicU64,
    pub(super) packets: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// Packets that were skipped or refused by the system.
    pub(super) skipped: AtomicU64,
    pub(super) failed: AtomicU64,
    /// True once there was a connection, over TCP.
    pub(super) connected: AtomicBool,
    pub(super) error: OnceLock<String>,
}

impl AgentState {
    fn count(&self, bytes: usize) {
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Skips the packets that were due in this time, and returns the time for which they stood. Without a rate
    /// none is due.
    pub(super) fn skip(&self, behind: Duration) -> Duration {
        let nanos = u64::try_from(behind.as_nanos()).unwrap_or(u64::MAX);
        match self.gap_nanos.load(Relaxed) {
            0 => behind,
            gap => {
                self.skipped.fetch_add(nanos / gap, Relaxed);
                Duration::from_nanos(nanos - nanos % gap)
            }
        }
    }

    /// Keeps the error, if it is the first.
    pub(super) fn record_error(&self, what: &str, error: &std::io::Error) {
        self.error.get_or_init(|| format!("cannot {what}: {error}"));
    }

    /// Sleeps until `time`, or until it must stop; true if it may go on sending.
    fn sleep_until(&self, time: Instant) -> bool {
        loop {
            if self.quits.load(Relaxed) || !self.sends.load(Relaxed) {
                return false;
            }
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(LOOK));
        }
    }

    /// Waits until it may send; `false` if it must end.
    fn wait(&self) -> bool {
        while !self.quits.load(Relaxed) {
            if self.sends.load(Relaxed) {
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }
}

/// Starts a thread inside a host; its children stay there.
pub(super) fn spawn(
    lab: &Lab,
    host: HostIndex,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, LabError> {
    let start = || thread::Builder::new().name("traffic".to_owned()).spawn(body);
    lab.run_in(host, start)?.map_err(|error| LabError::Kernel { what: "start a thread".to_owned(), source: error })
}

pub(super) enum Listening {
    Udp(UdpSocket),
    Tcp(TcpListener),
}

/// Opens the sockets inside a host.
pub(super) fn listen(lab: &Lab, host: HostIndex, is_tcp: bool, port: u16) -> Result<Listening, RunError> {
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port);
    let bound = lab.run_in(host, || {
        Ok::<_, std::io::Error>(if is_tcp {
            let listener = TcpListener::bind(any)?;
            listener.set_nonblocking(true)?;
            Listening::Tcp(listener)
        } else {
            let socket = UdpSocket::bind(any)?;
            socket.set_read_timeout(Some(LOOK))?;
            Listening::Udp(socket)
        })
    })?;
    bound.map_err(|error| RunError::Failed(error.to_string()))
}

/// Sends datagrams while enabled; returns when it must end.
pub(super) fn send_udp(shared: &AgentState, to: SocketAddrV4) {
    let socket = match UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
        Ok(socket) => socket,
        Err(error) => return shared.record_error("open a socket", &error),
    };
    send_paced(shared, |packet| {
        match socket.send_to(packet, to) {
            Ok(_) => shared.count(packet.len()),
            Err(error) => {
                shared.failed.fetch_add(1, Relaxed);
                shared.record_error("send", &error);
            }
        }
        true
    });
}

/// Sends over TCP while enabled, with a new connection for each start and after each failure.
pub(super) fn send_tcp(shared: &AgentState, to: SocketAddrV4) {
    while shared.wait() {
        let mut stream = match TcpStream::connect_timeout(&to.into(), Duration::from_secs(5)) {
            Ok(stream) => stream,
            Err(error) => {
                shared.record_error("connect", &error);
                thread::sleep(RETRY);
                continue;
            }
        };
        shared.connected.store(true, Relaxed);
        // Otherwise a link that is down would keep it from ending.
        let _ = stream.set_write_timeout(Some(LOOK));
        send_once(shared, |packet| write(shared, &mut stream, packet));
    }
}

/// Writes a packet; true while the connection lives.
fn write(shared: &AgentState, stream: &mut TcpStream, packet: &[u8]) -> bool {
    let mut rest = packet;
    while !rest.is_empty() && !shared.quits.load(Relaxed) {
        match stream.write(rest) {
            Ok(0) => return false,
            Ok(sent) => rest = &rest[sent..],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return false,
        }
    }
    shared.count(packet.len());
    true
}

fn send_paced(shared: &AgentState, mut send: impl FnMut(&[u8]) -> bool) {
    while shared.wait() {
        send_once(shared, &mut send);
    }
}

/// Sends from one start to the next stop, or until `send` fails.
fn send_once(shared: &AgentState, mut send: impl FnMut(&[u8]) -> bool) {
    let buffer = vec![0; MAX_PAYLOAD];
    let mut due = Instant::now();
    while shared.sleep_until(due) {
        let bytes = (shared.packet_bytes.load(Relaxed) as usize).clamp(1, MAX_PAYLOAD);
        if !send(&buffer[..bytes]) {
            return;
        }
        due += Duration::from_nanos(shared.gap_nanos.load(Relaxed));
        let earliest = Instant::now().checked_sub(MAX_LAG).unwrap_or(due);
        due += shared.skip(earliest.saturating_duration_since(due));
    }
    // Packets that were due at the stop are not sent any more.
    shared.skip(Instant::now().saturating_duration_since(due));
}

pub(super) fn count_udp(shared: &AgentState, socket: &UdpSocket) {
    let mut buffer = vec![0; MAX_PAYLOAD];
    while !shared.quits.load(Relaxed) {
        if let Ok(bytes) = socket.recv(&mut buffer) {
            shared.count(bytes);
        }
    }
}

/// Counts bytes that arrive over connections.
pub(super) fn count_tcp(shared: &Arc<AgentState>, listener: &TcpListener) {
    let mut readers = Vec::new();
    while !shared.quits.load(Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                let counting = Arc::clone(shared);
                readers.push(thread::spawn(move || count_stream(&counting, stream)));
            }
            Err(_) => thread::sleep(LOOK / 10),
        }
    }
    for reader in readers {
        // The counters stay valid.
        let _ = reader.join();
    }
}

fn count_stream(shared: &AgentState, mut stream: TcpStream) {
    let timed = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(LOOK)));
    let mut buffer = vec![0; MAX_PAYLOAD];
    while timed.is_ok() && !shared.quits.load(Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => shared.count(bytes),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_source_skips_packets() {
        let shared = AgentState::default();
        shared.sends.store(true, Relaxed);
        shared.packet_bytes.store(1, Relaxed);
        shared.gap_nanos.store(1_000_000, Relaxed);
        let mut sent = 0_u32;
        send_once(&shared, |_| {
            sent += 1;
            // The agent stands still for longer than it may fall behind; then it is stopped.
            thread::sleep(MAX_LAG + Duration::from_millis(100));
            shared.sends.store(false, Relaxed);
            true
        });
        // All packets due in that time: 99 were too late, and 1000 were due at the end.
        assert!(sent == 1 && shared.skipped.load(Relaxed) >= 1_098, "{sent} {:?}", shared.skipped);
    }
}
