//! An endless object by TCP of the kernel.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;

use super::arrivals::ByteArrivals;
use super::{BulkFlow, LOOK};

/// What is read and written at once.
const BLOCK: usize = 64 << 10;
/// Room for several times what the longest path holds: the least, the first and the most.
const BUFFERS: &str = "4096 131072 67108864";

/// A receive buffer with which the window is about 32 KB, bytes: the system takes twice as much,
/// and the window may fill six tenths of that (half, before Linux 6.6).
pub(super) const ROOM_32K: usize = 27_000;

/// Lets TCP in this host have as much under way as a long fat path holds.
pub(super) fn prepare() {
    // Where the system refuses it the usual most is 4 to 6 MB, which is enough for these paths.
    for setting in ["tcp_rmem", "tcp_wmem"] {
        let _ = fs::write(format!("/proc/sys/net/ipv4/{setting}"), BUFFERS);
    }
}

/// Sends until all is over.
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

/// Receives until all is over; with `room` for so many bytes, or for as many as the path holds.
pub(super) fn receive(flow: &BulkFlow<'_>, room: Option<usize>, arrivals: &ByteArrivals) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, flow.port))?;
    if let Some(room) = room {
        // Inherited by what it accepts.
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
