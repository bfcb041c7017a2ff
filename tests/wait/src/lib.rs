//! Waits of all tests: for a condition, for datagrams to be read, and for the next moment of a paced sender; and free
//! ports.
#![allow(clippy::expect_used, reason = "this library only serves tests, which may stop with a message")]

mod ports;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

pub use ports::free_port;

/// The time between two looks. A look may start a process.
const LOOK: Duration = Duration::from_millis(20);
/// A shorter time, for tests that run what they wait for.
const SHORT_LOOK: Duration = Duration::from_millis(1);

/// Calls `ready` until it returns something or `within` has passed.
pub fn wait_until<T>(within: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + within;
    loop {
        match ready() {
            None if Instant::now() < end => thread::sleep(LOOK),
            value => return value,
        }
    }
}

/// As [`wait_until`], for tests that run on tokio, with shorter pauses.
pub async fn eventually<T>(within: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + within;
    loop {
        match ready() {
            None if Instant::now() < end => tokio::time::sleep(SHORT_LOOK).await,
            value => return value,
        }
    }
}

/// As [`eventually`], for an attempt that waits itself.
pub async fn repeat_until<T>(within: Duration, mut attempt: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + within;
    loop {
        match attempt().await {
            None if Instant::now() < end => tokio::time::sleep(SHORT_LOOK).await,
            value => return value,
        }
    }
}

/// Accepts a value that has stayed the same for `time`, for the functions above.
pub fn unchanged<T: PartialEq + Clone>(time: Duration) -> impl FnMut(T) -> Option<T> {
    let mut known: Option<(T, Instant)> = None;
    move |value| match &known {
        Some((before, since)) if *before == value => (since.elapsed() >= time).then_some(value),
        _ => {
            known = Some((value, Instant::now()));
            None
        }
    }
}

/// True if the owner of a UDP port of this host has read all datagrams that came.
pub fn all_read(port: u16) -> bool {
    let tables = ["/proc/net/udp", "/proc/net/udp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let port = format!(":{port:04X}");
    let rows = tables.iter().flat_map(|table| table.lines()).map(|row| row.split_whitespace());
    let own = rows.filter_map(|mut row| row.nth(1).is_some_and(|own| own.ends_with(&port)).then_some(row));
    // After the own address: that of the remote, the state, and the bytes that wait to be sent and read.
    let mut queues = own.map(|mut row| row.nth(2)).peekable();
    // Without an owner nobody reads.
    queues.peek().is_some() && queues.all(|queues| queues.is_none_or(|queues| queues.ends_with(":00000000")))
}

/// The numbers of the beats of a sender, the first at once. A late one delays those after it.
pub fn beats(interval: Duration) -> impl Iterator<Item = u32> {
    let mut next = Instant::now();
    (0..).inspect(move |_| {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next = Instant::now() + interval;
    })
}
