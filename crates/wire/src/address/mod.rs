//! Addresses as the wire carries them.

mod endpoint;
mod hub_name;
pub(crate) mod list;
mod scheme;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use minicbor::{Decode, Encode};

use crate::open;
pub use endpoint::{Endpoint, MAX_HOSTS, ParseEndpointError};
pub use hub_name::{HubName, ParseHubError, SrvName};
pub use scheme::{ParseSchemeError, Scheme, SchemeSet};

/// An endpoint whose hosts are IP addresses: what records and requests carry.
///
/// On the wire: a byte string per host (4 or 16 bytes), so an IPv4 address
/// with scheme and port takes ten bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub scheme: Scheme,
    /// The port, the same on every host.
    pub port: u16,
    /// At most [`MAX_HOSTS`] hosts, and at least one.
    pub hosts: Vec<IpAddr>,
}

impl Address {
    pub fn single(scheme: Scheme, socket: SocketAddr) -> Self {
        Self { scheme, port: socket.port(), hosts: vec![socket.ip()] }
    }

    /// The socket address of the first host.
    pub fn primary(&self) -> Option<SocketAddr> {
        self.hosts.first().map(|host| SocketAddr::new(*host, self.port))
    }

    /// The address with every unspecified host replaced by `observed`, the
    /// host from which its owner is seen to send.
    #[must_use]
    pub fn with_observed_host(mut self, observed: IpAddr) -> Self {
        for host in &mut self.hosts {
            if host.is_unspecified() {
                *host = observed;
            }
        }
        self
    }

    /// True if a host of it means something on its own machine only: a
    /// loopback or unspecified one.
    pub fn has_local_host(&self) -> bool {
        self.hosts.iter().any(is_confined)
    }

    /// The address without hosts that mean nothing on other machines; `None` if none is left.
    #[must_use]
    pub fn without_local_hosts(mut self) -> Option<Self> {
        self.hosts.retain(|host| !is_confined(host));
        (!self.hosts.is_empty()).then_some(self)
    }
}

fn is_confined(host: &IpAddr) -> bool {
    let host = host.to_canonical();
    host.is_loopback() || host.is_unspecified()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.hosts.iter().map(ToString::to_string).collect();
        Endpoint { scheme: self.scheme, hosts, port: self.port, congestion: None }.fmt(f)
    }
}

impl<C> Encode<C> for Address {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.array(2 + self.hosts.len() as u64)?.u8(self.scheme as u8)?.u16(self.port)?;
        for host in &self.hosts {
            match host {
                IpAddr::V4(v4) => e.bytes(&v4.octets())?,
                IpAddr::V6(v6) => e.bytes(&v6.octets())?,
            };
        }
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for Address {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        Self::read(d)?.ok_or_else(open::unknown)
    }
}

impl Address {
    /// Reads one; `None` if its transport is of a later version.
    pub fn read(d: &mut minicbor::Decoder<'_>) -> Result<Option<Self>, minicbor::decode::Error> {
        let wrong = minicbor::decode::Error::message;
        let len = d.array()?.ok_or_else(|| wrong("an address is an array of definite length"))?;
        if len == 0 {
            return Err(wrong("an address names its transport"));
        }
        let Some(scheme) = open::value(d)? else {
            // Only that transport knows the remaining fields.
            (1..len).try_for_each(|_| d.skip())?;
            return Ok(None);
        };
        if !(3..=2 + MAX_HOSTS as u64).contains(&len) {
            return Err(wrong("an address names one to four hosts"));
        }
        let port = d.u16()?;
        let hosts = (2..len).map(|_| decode_host(d)).collect::<Result<_, _>>()?;
        Ok(Some(Self { scheme, port, hosts }))
    }
}

fn decode_host(d: &mut minicbor::Decoder<'_>) -> Result<IpAddr, minicbor::decode::Error> {
    let bytes = d.bytes()?;
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::from(v4));
    }
    <[u8; 16]>::try_from(bytes)
        .map(IpAddr::from)
        .map_err(|_| minicbor::decode::Error::message("a host is 4 or 16 bytes"))
}

/// True if anything may be sent to a host that a remote names: it is one host, and not the sender's
/// own machine, unless the remote is seen `here`, on that machine.
pub fn is_destination(host: IpAddr, here: bool) -> bool {
    let host = host.to_canonical();
    let is_one = match host {
        // 0.0.0.0/8 is nobody, and 240.0.0.0/4 reserved but for the broadcast at its end.
        IpAddr::V4(host) => host.octets()[0] != 0 && host.octets()[0] < 240,
        IpAddr::V6(host) => !host.is_unspecified(),
    };
    is_one && !host.is_multicast() && (here || !host.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_hosts_are_not_advertised() {
        let address = |hosts: &[&str]| Address {
            scheme: Scheme::Quic,
            port: 7700,
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        };
        let mixed = address(&["127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.2", "0.0.0.0"]);
        assert!(mixed.has_local_host());
        assert_eq!(mixed.without_local_hosts(), Some(address(&["10.0.0.1"])));
        assert_eq!(address(&["127.0.0.1", "::"]).without_local_hosts(), None);
        let open = address(&["10.0.0.1", "fd00::1"]);
        assert_eq!((open.has_local_host(), open.clone().without_local_hosts()), (false, Some(open)));
    }

    #[test]
    fn an_ipv4_address_takes_ten_bytes() {
        let address = Address::single(Scheme::Udp, SocketAddr::from(([10, 0, 0, 1], 7700)));
        let bytes = minicbor::to_vec(&address).unwrap();
        assert_eq!(bytes.len(), 10);
        assert_eq!(minicbor::decode::<Address>(&bytes).unwrap(), address);
    }
}
