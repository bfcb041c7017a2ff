//! Addresses in specs, and sockets that listen on them.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use crate::error::plain;
use crate::shared_reader::{Outlet, SourceReader};
use crate::{MAX_DATAGRAM_BYTES, SourceError};

/// The kernel's receive buffer, bytes: a second of fast video.
const RECEIVE_BUFFER: usize = 1024 * 1024;

/// The attempts to bind a port: a socket that was closed a moment ago may still hold it.
const BIND_TRIES: u32 = 10;
const BIND_PAUSE: Duration = Duration::from_millis(20);

/// Checks the notation `HOST:PORT`, with an IPv6 address in brackets.
pub fn check_address(text: &str) -> Result<(), &'static str> {
    // The last colon of [::1] is part of the address.
    let (host, port) = text.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).ok_or("it has no port")?;
    port.parse::<NonZeroU16>().map_err(|_| "its port is not a number from 1 to 65535")?;
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let sound = match bracketed {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
            (1..=253).contains(&host.len()) && host.bytes().all(named)
        }
    };
    if sound { Ok(()) } else { Err("its host is malformed") }
}

pub(crate) async fn resolve(address: &str) -> std::io::Result<SocketAddr> {
    let nothing = || Error::new(ErrorKind::NotFound, "the name has no address");
    tokio::net::lookup_host(address).await?.next().ok_or_else(nothing)
}

/// A local port, or a multicast group and its port, to listen on.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) address: String,
    /// The network on which to join a group; `None` leaves the choice to the system.
    pub(crate) interface: Option<Ipv4Addr>,
}

impl Port {
    /// Returns the next port number, or `None` after 65535.
    pub(crate) fn next(&self) -> Option<Self> {
        let (host, port) = self.address.rsplit_once(':')?;
        let next = port.parse::<u16>().ok()?.checked_add(1)?;
        Some(Self { address: format!("{host}:{next}"), interface: self.interface })
    }

    pub(crate) async fn listen(&self) -> Result<UdpSocket, SourceError> {
        let failed = |error: &Error| SourceError::CannotListen { address: self.address.clone(), reason: plain(error) };
        let address = resolve(&self.address).await.map_err(|error| failed(&error))?;
        let mut tries = 1;
        loop {
            match self.bind(address) {
                Err(error) if error.kind() == ErrorKind::AddrInUse && tries < BIND_TRIES => {
                    tries += 1;
                    tokio::time::sleep(BIND_PAUSE).await;
                }
                result => return result.map_err(|error| failed(&error)),
            }
        }
    }

    fn bind(&self, address: SocketAddr) -> std::io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        // The system may grant a smaller buffer; the source works with it.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
        if address.ip().is_multicast() {
            // Other programs on this machine listen to the same group.
            socket.set_reuse_address(true)?;
        }
        socket.bind(&address.into())?;
        match address.ip() {
            IpAddr::V4(group) if group.is_multicast() => {
                socket.join_multicast_v4(&group, &self.interface.unwrap_or(Ipv4Addr::UNSPECIFIED))?;
            }
            IpAddr::V6(group) if group.is_multicast() => socket.join_multicast_v6(&group, 0)?,
            IpAddr::V4(_) | IpAddr::V6(_) => {}
        }
        UdpSocket::from_std(socket.into())
    }
}

/// Turns the datagrams of a live source into payloads.
pub(crate) trait Decode: Send + 'static {
    /// Puts the payloads of `datagram` into `outlet`.
    ///
    /// # Errors
    /// The source is of another kind than its spec says and will never give anything.
    fn decode(&mut self, from: SocketAddr, datagram: &[u8], outlet: &Outlet) -> Result<(), SourceError>;
}

pub(crate) struct Datagrams<D> {
    pub(crate) socket: UdpSocket,
    pub(crate) address: String,
    pub(crate) decoder: D,
}

impl<D: Decode> SourceReader for Datagrams<D> {
    async fn run(mut self, outlet: Outlet) -> SourceError {
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES + 1];
        loop {
            match self.socket.recv_from(&mut buffer).await {
                Ok((length, _)) if length > MAX_DATAGRAM_BYTES => outlet.malformed(),
                Ok((length, from)) => {
                    if let Err(error) = self.decoder.decode(from, &buffer[..length], &outlet) {
                        return error;
                    }
                }
                Err(error) => return SourceError::Unreachable { address: self.address, reason: plain(&error) },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn port_in_use_is_error() {
        let taken = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = Port { address: taken.local_addr().unwrap().to_string(), interface: None };
        let error = port.listen().await.unwrap_err().to_string();
        assert!(
            error.starts_with("cannot listen on 127.0.0.1:") && error.contains("address already in use"),
            "{error}"
        );
    }

    #[test]
    fn addresses() {
        for good in ["localhost:1", "10.0.0.1:65535", "[::1]:5004", "a-b.c:9"] {
            assert_eq!(check_address(good), Ok(()));
        }
        for bad in ["", "a", ":1", "a:", "a:65536", "a:0", "::1:5", "[x]:5", "a b:5"] {
            assert!(check_address(bad).is_err(), "{bad}");
        }
    }
}
