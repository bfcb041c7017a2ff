//! Calls into the kernel that no safe library offers.
//!
//! This is the only module of the crate with `unsafe` code: statistics of raw
//! packet sockets, and the scheduler. Everything else goes through `rustix`.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// How many frames a packet socket had no room for since the last call.
///
/// # Errors
/// When it is no packet socket.
pub(crate) fn packet_socket_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut counters = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
    let place: *mut c_void = (&raw mut counters).cast();
    // SAFETY: the kernel writes at most `length` bytes, the size of `counters`.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, place, &raw mut length) })?;
    Ok(counters.tp_drops)
}

/// Gives the calling thread a real-time priority (`SCHED_FIFO`), from 1 to 99;
/// what it starts does not inherit it.
///
/// # Errors
/// When this user may not: a user namespace never gives this right.
pub(crate) fn become_realtime(priority: u8) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: c_int::from(priority) };
    // SAFETY: the kernel reads one `sched_param`; 0 is the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters) })
}

fn check(result: c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
