//! A flood: as many packets as one thread can send, received by another thread.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Packets sent between two readings of the clock.
const BETWEEN_LOOKS: u32 = 256;
/// The time for which the receiver waits for one more packet after the last was sent.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flood {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) time: Duration,
}

/// Sends packets of `bytes` payload from a connected socket for `length`, and counts those that a program with
/// the other socket receives.
pub(super) fn run(
    (from, to): (&UdpSocket, &UdpSocket),
    bytes: usize,
    length: Duration,
    stop: &AtomicBool,
) -> io::Result<Flood> {
    to.set_read_timeout(Some(PATIENCE))?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(to, &over));
        let sent = send(from, bytes, length, stop);
        over.store(true, Relaxed);
        let received = receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        sent.map(|(sent, time)| Flood { sent, received, time })
    })
}

fn send(socket: &UdpSocket, bytes: usize, length: Duration, stop: &AtomicBool) -> io::Result<(u64, Duration)> {
    let (payload, began) = (vec![0; bytes], Instant::now());
    let mut sent = 0;
    while began.elapsed() < length && !stop.load(Relaxed) {
        for _ in 0..BETWEEN_LOOKS {
            match socket.send(&payload) {
                Ok(_) => sent += 1,
                // The interface's queue is full, as intended.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok((sent, began.elapsed()))
}

fn receive(socket: &UdpSocket, over: &AtomicBool) -> io::Result<u64> {
    let (mut received, mut payload) = (0, [0; 2048]);
    loop {
        match socket.recv(&mut payload) {
            Ok(_) => received += 1,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                if over.load(Relaxed) {
                    return Ok(received);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_never_exceeds_sent() {
        let [from, to] = ["127.0.0.1:0"; 2].map(|address| UdpSocket::bind(address).unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        let flood = run((&from, &to), 22, Duration::from_millis(5), &AtomicBool::new(false)).unwrap();
        assert!(flood.sent >= u64::from(BETWEEN_LOOKS) && flood.time >= Duration::from_millis(5));
        assert!(0 < flood.received && flood.received <= flood.sent);
    }
}
