//! An endless object by TCP of the kernel.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;

use super::arrivals::ByteArrivals;
use super::{BulkFlow, LOOK};

/// Bytes read or written at once.
const BLOCK: usize = 64 << 10;
/// Buffers with room for several times the longest path's content: the least, the initial and the greatest
/// size.
const BUFFERS: &str = "4096 131072 67108864";

/// A receive buffer, in bytes, that limits the window to about 32 KB: the system doubles it, and the window may
/// fill six tenths of that (half, before Linux 6.6).
pub(super) const ROOM_32K: usize = 27_000;

/// Raises the buffers of TCP in this host for a long path of high rate.
pub(super) fn prepare() {
    // If the system refuses, the default maximum is 4 to 6 MB, which suffices for these paths.
    for setting in ["tcp_rmem", "tcp_wmem"] {
        let _ = fs::write(format!("/proc/sys/net/ipv4/{setting}"), BUFFERS);
    }
}

pub(super) fn send(flow: &BulkFlow<'_>, to: Ipv4Addr, congestion: &str) -> io::Result<()> {
    let at = SocketAddr::from((to, flow.port));
    let mut stream = loop {
        match TcpStream::connect_timeout(&at, Duration::from_secs(5)) {
            Ok(stream) => break stream,
            // The receiver does not listen yet.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && !flow.is_over() => thread::sleep(LOOK),
            Err(error) => return Err(error),
        }
    };
    sockopt::set_tcp_congestion(&stream, congestion).map_err(|error| {
        io::Error::other(format!(
            "this kernel does not let a host use TCP {congestion} ({error}): load tcp_{congestion}"
        ))
    })?;
    stream.set_write_timeout(Some(LOOK))?;
    let block = [7; BLOCK];
    while !flow.is_over() {
        match stream.write(&block) {
            Err(error) if !is_waiting(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Receives until the run is over, with a receive buffer of `room` bytes, or of automatic size.
pub(super) fn receive(flow: &BulkFlow<'_>, room: Option<usize>, arrivals: &ByteArrivals) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, flow.port))?;
    if let Some(room) = room {
        // Accepted sockets inherit it.
        sockopt::set_socket_recv_buffer_size(&listener, room)?;
    }
    listener.set_nonblocking(true)?;
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if is_waiting(&error) && !flow.is_over() => thread::sleep(LOOK),
            Err(error) if is_waiting(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LOOK))?;
    let (mut block, mut bytes) = (vec![0; BLOCK], 0);
    while !flow.is_over() {
        match stream.read(&mut block) {
            Ok(0) => break,
            Ok(length) => {
                bytes += length as u64;
                arrivals.record_bytes(bytes);
            }
            Err(error) if is_waiting(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_waiting(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
