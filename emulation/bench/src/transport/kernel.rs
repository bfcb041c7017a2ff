//! TCP and MPTCP of the kernel, whose stream carries frames with their lengths.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use roost_lab::Lab;
use roost_topology::model::HostIndex;
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, listen, socket_with};

use super::end::{FrameEndpoint, PATIENCE};
use super::network::{RECEIVER, SENDER};
use super::{BenchTransport, PORT};
use crate::in_host;

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// The congestion control of the kernel's connections: Linux's default.
const CONGESTION: &str = "cubic";
const LENGTH_BYTES: usize = 4;
/// The time for MPTCP to join its second subflow.
const JOIN: Duration = Duration::from_millis(300);
/// Settings for the quickest failover of MPTCP that the kernel allows: the least retransmission time, and the
/// number of retransmissions that makes a subflow stale.
const RTO_MIN: &str = "10ms";
const STALE_AFTER: &str = "1";
/// The least, the initial and the greatest size of its buffers, bytes. Data that a dead subflow has not
/// delivered blocks the other one as soon as it fills a buffer; buffers that begin at 128 KB have not grown by
/// the time that a link fails.
const BUFFERS: &str = "4096 4194304 33554432";

/// Describes why MPTCP is missing or forbidden in this kernel; `None` if it is available.
pub(super) fn mptcp_is_missing() -> Option<String> {
    let answer = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::MPTCP));
    answer.err().map(|error| {
        format!("this kernel has no MPTCP ({error}), so that kernel-mptcp is not measured: run on Linux 5.6 or newer")
    })
}

/// Makes both hosts use both links for MPTCP, and announce the second address as in RFC 8684.
pub(super) fn prepare_mptcp(lab: &Lab) -> io::Result<()> {
    for host in [SENDER, RECEIVER] {
        in_host(lab, host, || {
            // Not every kernel has them; without them its own defaults hold.
            let _ = fs::write("/proc/sys/net/mptcp/stale_loss_cnt", STALE_AFTER);
            let _ = fs::write("/proc/sys/net/mptcp/blackhole_timeout", "0");
            for buffers in ["tcp_rmem", "tcp_wmem"] {
                let _ = fs::write(format!("/proc/sys/net/ipv4/{buffers}"), BUFFERS);
            }
            ip(&["mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2"])?;
            for (link, net) in lab.topology().nets.iter().enumerate() {
                let Some(address) = net.members[host].address else { continue };
                let subnet = subnet(address, net.members[host].prefix);
                let (device, source) = (format!("eth{link}"), address.to_string());
                let kind = ["proto", "kernel", "scope", "link"];
                let route = [&["route", "change", &subnet, "dev", &device][..], &kind, &["src", &source]].concat();
                ip(&[&route[..], &["rto_min", RTO_MIN]].concat())?;
            }
            Ok(())
        })?;
    }
    let second = address(lab, 1, RECEIVER)?.to_string();
    in_host(lab, RECEIVER, || ip(&["mptcp", "endpoint", "add", &second, "dev", "eth1", "signal"]))
}

fn subnet(address: Ipv4Addr, prefix: u8) -> String {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    format!("{}/{prefix}", Ipv4Addr::from_bits(address.to_bits() & mask))
}

fn ip(words: &[&str]) -> io::Result<()> {
    let output = Command::new("ip").args(words).output();
    let output = output.map_err(|error| io::Error::new(error.kind(), format!("cannot run ip of iproute2: {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(format!("`ip {}`: {}", words.join(" "), said.trim())))
        }
    }
}

/// The address of a host on a link.
pub(super) fn address(lab: &Lab, link: usize, host: HostIndex) -> io::Result<Ipv4Addr> {
    let address = lab.topology().nets.get(link).and_then(|net| net.members[host].address);
    address.ok_or_else(|| io::Error::other("a host has no address"))
}

pub(super) struct KernelStream {
    stream: TcpStream,
    /// MPTCP accepts further subflows only while a socket listens.
    _listener: Option<TcpListener>,
    read: BytesMut,
    buffer: Vec<u8>,
}

impl KernelStream {
    /// Listens; `ready` is called once the other end may connect.
    pub(super) fn accept(transport: BenchTransport, ready: impl FnOnce()) -> io::Result<Self> {
        let socket = socket(transport)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT))?;
        listen(&socket, 1)?;
        ready();
        let listener = TcpListener::from(socket);
        let (stream, _) = listener.accept()?;
        Self::over(stream, Some(listener))
    }

    pub(super) fn connect(transport: BenchTransport, to: Ipv4Addr) -> io::Result<Self> {
        let socket = socket(transport)?;
        connect(&socket, &SocketAddrV4::new(to, PORT))?;
        if transport == BenchTransport::KernelMptcp {
            thread::sleep(JOIN);
        }
        Self::over(socket.into(), None)
    }

    fn over(stream: TcpStream, listener: Option<TcpListener>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, _listener: listener, read: BytesMut::new(), buffer: vec![0; READ_BYTES] })
    }

    /// Ends the sending, and waits until the other end has read everything.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Write)?;
        self.stream.set_read_timeout(Some(PATIENCE))?;
        // The remote end closes, or has stopped answering.
        let _ = self.stream.read(&mut self.buffer);
        Ok(())
    }

    /// The first frame in the buffer, if it is complete.
    fn whole(&mut self) -> Option<Bytes> {
        let length = u32::from_le_bytes(*self.read.first_chunk()?) as usize;
        if self.read.len() < LENGTH_BYTES + length {
            return None;
        }
        self.read.advance(LENGTH_BYTES);
        Some(self.read.split_to(length).freeze())
    }
}

fn socket(transport: BenchTransport) -> io::Result<OwnedFd> {
    let protocol = if transport == BenchTransport::KernelMptcp { ipproto::MPTCP } else { ipproto::TCP };
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, Some(protocol))?;
    // A kernel without it uses another one, which the report names.
    let _ = set_tcp_congestion(&socket, CONGESTION);
    Ok(socket)
}

pub(super) fn congestion() -> Option<String> {
    tcp_congestion(socket(BenchTransport::KernelTcp).ok()?).ok()
}

impl FrameEndpoint for KernelStream {
    fn send(&mut self, frame: Bytes) -> io::Result<()> {
        // Fits u32: a frame is far below 4 GiB. A single write makes one segment where it fits.
        let length = (frame.len() as u32).to_le_bytes();
        self.stream.write_all(&[&length, &frame[..]].concat())
    }

    fn receive(&mut self, until: Instant) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(frame) = self.whole() {
                return Ok(Some(frame));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Ok(None),
                Ok(length) => self.read.extend_from_slice(&self.buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn wait(&mut self, until: Instant) -> io::Result<()> {
        thread::sleep(until.saturating_duration_since(Instant::now()));
        Ok(())
    }
}
