//! Addresses as specs write them, and sockets to listen on.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

/// Checks the notation `HOST:PORT`, with an IPv6 address in brackets.
pub(crate) fn check_address(text: &str) -> Result<(), &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("it has no port")?;
    port.parse::<u16>().map_err(|_| "its port is not a number up to 65535")?;
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

/// The first address of `HOST:PORT`.
pub(crate) async fn resolve(address: &str) -> std::io::Result<SocketAddr> {
    let nothing = || Error::new(ErrorKind::NotFound, "the name has no address");
    tokio::net::lookup_host(address).await?.next().ok_or_else(nothing)
}
