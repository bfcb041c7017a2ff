//! Kernel calls that no safe library offers.
//!
//! This is the only module of the crate with `unsafe` code: the requests that make a TAP device and set a
//! device's offloads, raw packet sockets, the scheduler, `unshare`, signals as a file descriptor, and many
//! datagrams in one call. Everything else goes through `rustix`.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::fs::OpenOptions;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::ioctl::{Getter, IntegerSetter, Opcode, Setter, Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::UnshareFlags;

pub const TUN_DEVICE: &str = "/dev/net/tun";

/// Longest name of an interface, with its terminating zero (`IFNAMSIZ`).
const NAME_BYTES: usize = 16;
/// `struct ifreq` on 64-bit systems: the name, and 24 bytes whose meaning depends on the request.
const REQUEST_REST_BYTES: usize = 24;

const TUNGETFEATURES: Opcode = libc::TUNGETFEATURES as Opcode;
const TUNSETIFF: Opcode = libc::TUNSETIFF as Opcode;
const TUNSETPERSIST: Opcode = libc::TUNSETPERSIST as Opcode;
const TUNSETIFINDEX: Opcode = libc::TUNSETIFINDEX as Opcode;
const SIOCETHTOOL: Opcode = 0x8946;
const ETHTOOL_STXCSUM: u32 = 0x17;

/// Moves the calling thread into new namespaces.
///
/// # Errors
/// As `unshare(2)`; for the user namespace also when the process has more than one thread.
pub fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    debug_assert!(!namespaces.intersects(UnshareFlags::FILES | UnshareFlags::FS | UnshareFlags::SYSVSEM));
    // SAFETY: only a thread's table of file descriptors can be unshared
    // unsoundly, and the callers ask for namespaces only.
    unsafe { rustix::thread::unshare_unsafe(namespaces) }.map_err(Into::into)
}

/// Checks that this user can make TAP devices.
///
/// # Errors
/// Fails when `/dev/net/tun` does not exist, is denied to this user, or is something else.
pub fn probe_tap() -> io::Result<()> {
    let device = OpenOptions::new().read(true).write(true).open(TUN_DEVICE)?;
    // SAFETY: TUNGETFEATURES writes one unsigned int.
    unsafe { ioctl(&device, Getter::<TUNGETFEATURES, u32>::new())? };
    Ok(())
}

/// Makes a TAP device in the calling thread's network namespace.
///
/// Reads and writes of the descriptor move one Ethernet frame without any header before it, and do not block.
/// The device stays when the descriptor is closed, and goes with its namespace: the kernel takes the devices of
/// many namespaces down together, but waits some 20 ms for each that goes by itself.
///
/// # Errors
/// Fails when `/dev/net/tun` does not exist or is denied to this user, or the kernel refuses.
pub fn open_tap(name: &str, index: u32) -> io::Result<OwnedFd> {
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let device = OpenOptions::new().read(true).write(true).custom_flags(flags).open(TUN_DEVICE)?;
    // SAFETY: TUNSETIFINDEX reads one unsigned int.
    unsafe { ioctl(&device, Setter::<TUNSETIFINDEX, u32>::new(index))? };
    let kind = (libc::IFF_TAP | libc::IFF_NO_PI) as u16;
    let mut request = TapRequest { name: interface_name(name)?, kind, rest: [0; REQUEST_REST_BYTES - 2] };
    // SAFETY: TUNSETIFF reads and writes a `struct ifreq`, which `TapRequest` is laid out as.
    unsafe { ioctl(&device, Updater::<TUNSETIFF, TapRequest>::new(&mut request))? };
    // SAFETY: TUNSETPERSIST takes a number, not a pointer.
    unsafe { ioctl(&device, IntegerSetter::<TUNSETPERSIST>::new_usize(1))? };
    Ok(device.into())
}

/// Makes the kernel complete every packet before it leaves by an interface of the calling thread's namespace:
/// compute its checksum, and cut it into segments, which the kernel leaves to devices only if they compute
/// checksums as well.
///
/// # Errors
/// Fails when there is no such interface, or its driver refuses.
pub fn finish_checksums(name: &str) -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut value = EthtoolValue { command: ETHTOOL_STXCSUM, data: 0 };
    let mut request = EthtoolRequest {
        name: interface_name(name)?,
        value: &raw mut value,
        rest: [0; REQUEST_REST_BYTES - size_of::<usize>()],
    };
    // SAFETY: SIOCETHTOOL reads a `struct ifreq`, which `EthtoolRequest` is laid
    // out as, and reads and writes the `struct ethtool_value` that it points to,
    // which outlives the call.
    unsafe { ioctl(&socket, Updater::<SIOCETHTOOL, EthtoolRequest>::new(&mut request))? };
    Ok(())
}

/// Opens a raw packet socket on an interface of the calling thread's namespace.
///
/// Reads and writes move one Ethernet frame and do not block. The socket does not receive frames that it sent
/// itself.
///
/// # Errors
/// Fails when the interface does not exist or the user may not open such sockets.
pub fn open_packet_socket(index: u32, receive_buffer_bytes: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Protocol 0 receives nothing until the socket is bound to its interface.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    let bytes = receive_buffer_bytes.cast_signed();
    if set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes).is_err() {
        set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)?;
    }
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is a whole `sockaddr_ll` and `length` its size.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket)
}

/// Frames that a packet socket dropped for lack of room since the last call.
///
/// # Errors
/// Fails when it is no packet socket.
pub fn packet_socket_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut counters = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
    let place: *mut c_void = (&raw mut counters).cast();
    // SAFETY: the kernel writes at most `length` bytes, the size of `counters`.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, place, &raw mut length) })?;
    Ok(counters.tp_drops)
}

/// The bytes of a message that [`receive_heads`] returns.
pub const HEAD_BYTES: usize = 24;
const HEADS: usize = 64;
/// Room for a `struct timespec` and an `int`, each after an aligned `struct cmsghdr`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Datagrams of one sender and size that the kernel merged into a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramBatch {
    /// The first bytes of the first datagram, padded with zeros.
    pub head: [u8; HEAD_BYTES],
    pub datagrams: u64,
    /// The time of arrival, by the system's clock.
    pub at: Option<Duration>,
}

/// Sets up a socket for [`receive_heads`]: a receive buffer, merged datagrams, and a time stamp for each
/// message.
///
/// # Errors
/// Fails when it is no UDP socket. A smaller buffer than requested is no error.
pub fn prepare_heads(socket: impl AsFd, receive_buffer_bytes: u32) -> io::Result<()> {
    let bytes = receive_buffer_bytes.cast_signed();
    if set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes).is_err() {
        set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)?;
    }
    set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Receives waiting datagrams, in at most some ten messages, without blocking.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] when there are none.
pub fn receive_heads(socket: impl AsFd, mut take: impl FnMut(DatagramBatch)) -> io::Result<()> {
    let mut heads = [[0; HEAD_BYTES]; HEADS];
    let mut controls = [Control([0; 64]); HEADS];
    let mut vectors =
        heads.each_mut().map(|head| libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: HEAD_BYTES });
    // SAFETY: all zeros is a `mmsghdr` that names no memory.
    let mut messages: [libc::mmsghdr; HEADS] = unsafe { mem::zeroed() };
    for ((message, vector), control) in messages.iter_mut().zip(&mut vectors).zip(&mut controls) {
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
        message.msg_hdr.msg_controllen = size_of::<Control>();
    }
    let (fd, most, flags) = (socket.as_fd().as_raw_fd(), HEADS as libc::c_uint, libc::MSG_DONTWAIT | libc::MSG_TRUNC);
    // SAFETY: every message names its own vector, head and control, which outlive the call, with
    // their sizes; the kernel writes there and nowhere else.
    let count = unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), most, flags, std::ptr::null_mut()) };
    check(count)?;
    for (message, head) in messages.iter().zip(&heads).take(count.cast_unsigned() as usize) {
        let (at, segment) = told(&message.msg_hdr);
        // With MSG_TRUNC it is the length of the whole message.
        let datagrams = segment.filter(|bytes| *bytes > 0).map_or(1, |bytes| message.msg_len.div_ceil(bytes));
        take(DatagramBatch { head: *head, datagrams: datagrams.into(), at });
    }
    Ok(())
}

/// Reads a message's control data: its time of arrival, and the length of each datagram if there are several.
fn told(message: &libc::msghdr) -> (Option<Duration>, Option<u32>) {
    let (mut at, mut segment) = (None, None);
    // SAFETY: the kernel has set the length of the control messages, within their buffer, which is still there.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: it is null, or a whole header in that buffer.
    while let Some(control) = unsafe { next.as_ref() } {
        match (control.cmsg_level, control.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                // SAFETY: what a control message of this type holds is a `timespec`.
                let time: libc::timespec =
                    unsafe { libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned() };
                at = Some(Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32));
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                // SAFETY: what a control message of this type holds is an `int`.
                segment = Some(unsafe { libc::CMSG_DATA(control).cast::<c_int>().read_unaligned() }.cast_unsigned());
            }
            _ => {}
        }
        // SAFETY: as for the first.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    (at, segment)
}

/// Gives the calling thread a real-time priority (`SCHED_FIFO`) from 1 to 99: it runs before every thread of
/// lower or no priority as soon as it is ready. Its children do not inherit it.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE` outside all user namespaces, unless `RLIMIT_RTPRIO` allows it.
pub fn become_realtime(priority: u8) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: c_int::from(priority) };
    // SAFETY: the kernel reads one `sched_param`; 0 is the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters) })
}

/// Makes the calling thread run only on otherwise idle processors (`SCHED_IDLE`), for good. Its children
/// inherit it.
///
/// # Errors
/// Errors of the system; every user has the right.
pub fn become_idle() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one `sched_param`; 0 is the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) })
}

/// Blocks the given signals in the calling thread, and opens a descriptor from which they are read instead,
/// each as a `signalfd_siginfo`. Its children inherit the mask, and [release](release_signals) it.
///
/// # Errors
/// Fails when the process has too many open files.
pub fn open_signals(signals: &[c_int]) -> io::Result<OwnedFd> {
    let set = signal_set(signals)?;
    // SAFETY: reads `set`, and the old mask is not asked for.
    check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) })?;
    // If the parent had `SIGCHLD` ignored, this process would inherit that, and ended children would leave
    // nothing to wait for.
    // SAFETY: sets a signal's default action; no handler is involved.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: reads `set`; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) };
    check(fd)?;
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// True if this process ignores a signal, as after `nohup`.
pub fn is_ignored(signal: c_int) -> bool {
    // SAFETY: all zeros is a `sigaction`, which the call below fills.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: nothing is set, and `action` is written, which outlives the call.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Unblocks signals in the calling thread.
///
/// # Errors
/// Fails when one of them is no signal.
pub fn release_signals(signals: &[c_int]) -> io::Result<()> {
    let set = signal_set(signals)?;
    // SAFETY: reads `set`, and the old mask is not asked for.
    check(unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) })
}

/// Takes over a socket that this process inherited.
///
/// # Errors
/// Fails when there is no such descriptor, or it is no stream socket.
pub fn inherit(number: i32) -> io::Result<OwnedFd> {
    inherit_kind(number, libc::SOCK_STREAM)
}

/// As [`inherit`], of a socket of datagrams.
///
/// # Errors
/// Fails when there is no such descriptor, or it is another socket.
pub fn inherit_datagram(number: i32) -> io::Result<OwnedFd> {
    inherit_kind(number, libc::SOCK_DGRAM)
}

fn inherit_kind(number: i32, expected: c_int) -> io::Result<OwnedFd> {
    let mut kind: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    let place: *mut c_void = (&raw mut kind).cast();
    // SAFETY: the kernel writes at most `length` bytes, the size of `kind`; a
    // number that is no socket is refused.
    check(unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_TYPE, place, &raw mut length) })?;
    if kind != expected {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: a number that is no open descriptor is refused by the kernel.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: it is open, as was just checked, and the caller is the process
    // that it was left to: nothing else in it has owned it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[repr(C)]
struct TapRequest {
    name: [u8; NAME_BYTES],
    kind: u16,
    rest: [u8; REQUEST_REST_BYTES - 2],
}

#[repr(C)]
struct EthtoolRequest {
    name: [u8; NAME_BYTES],
    value: *mut EthtoolValue,
    rest: [u8; REQUEST_REST_BYTES - size_of::<usize>()],
}

#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

fn signal_set(signals: &[c_int]) -> io::Result<libc::sigset_t> {
    // SAFETY: all zeros is a `sigset_t`, and sigemptyset makes it an empty one.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is a `sigset_t` that belongs to this function.
    check(unsafe { libc::sigemptyset(&raw mut set) })?;
    for &signal in signals {
        // SAFETY: as above; a number that is no signal is refused.
        check(unsafe { libc::sigaddset(&raw mut set, signal) })?;
    }
    Ok(set)
}

fn interface_name(name: &str) -> io::Result<[u8; NAME_BYTES]> {
    let mut bytes = [0; NAME_BYTES];
    match bytes.get_mut(..name.len()) {
        Some(place) if name.len() < NAME_BYTES => place.copy_from_slice(name.as_bytes()),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    }
    Ok(bytes)
}

fn set_option(socket: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let place: *const c_void = (&raw const value).cast();
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes, the size of `value`.
    check(unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, place, length) })
}

fn check(result: c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_names_leave_room_for_nul() {
        assert_eq!(interface_name("eth0").unwrap()[..5], *b"eth0\0");
        assert!(interface_name("fifteen-letters").is_ok());
        assert!(interface_name("sixteen--letters").is_err());
    }

    #[test]
    fn what_is_ignored_is_known() {
        // The runtime of Rust ignores SIGPIPE.
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGUSR2));
    }

    #[test]
    fn only_a_stream_socket_is_inherited() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(inherit(file.as_raw_fd()).is_err());
        let datagrams = std::os::unix::net::UnixDatagram::unbound().unwrap();
        assert!(inherit(datagrams.as_raw_fd()).is_err());
        assert!(inherit(-1).is_err());
    }

    #[test]
    fn heads_are_taken_with_their_time() {
        let [receiver, sender] = [0, 1].map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        prepare_heads(&receiver, 1 << 20).unwrap();
        assert_eq!(receive_heads(&receiver, |_| ()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        for datagram in [&[7; 100][..], &[8; 3]] {
            sender.send_to(datagram, receiver.local_addr().unwrap()).unwrap();
        }
        let mut seen = Vec::new();
        // On loopback a sent datagram has arrived.
        receive_heads(&receiver, |arrival| seen.push(arrival)).unwrap();
        let mut short = [0; HEAD_BYTES];
        short[..3].fill(8);
        assert_eq!(seen.iter().map(|arrival| arrival.head).collect::<Vec<_>>(), [[7; HEAD_BYTES], short]);
        assert!(seen.iter().all(|arrival| arrival.datagrams == 1 && arrival.at.is_some()));
        // Several datagrams that the sender's kernel segments arrive as one message.
        set_option(&sender, libc::SOL_UDP, libc::UDP_SEGMENT, 40).unwrap();
        sender.send_to(&[9; 100], receiver.local_addr().unwrap()).unwrap();
        let mut datagrams = 0;
        receive_heads(&receiver, |arrival| datagrams += arrival.datagrams).unwrap();
        assert_eq!(datagrams, 3);
    }

    #[test]
    fn request_sizes_match_kernel() {
        assert_eq!(size_of::<TapRequest>(), size_of::<libc::ifreq>());
        assert_eq!(size_of::<EthtoolRequest>(), size_of::<libc::ifreq>());
    }
}
