//! The places of TAK: a server, a multicast group, or an address at which clients connect.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Tcp {
        address: String,
    },
    Tls {
        address: String,
        name: String,
    },
    Multicast {
        group: SocketAddrV4,
        /// The network on which the group is joined; `None` leaves the choice to the system.
        interface: Option<Ipv4Addr>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("{0:?} is no place of TAK: expected tcp://HOST:8087, tls://HOST:8089 or udp://239.2.3.1:6969")]
    Form(String),
    #[error("{0:?} has no port, or a malformed host: expected such as tcp://10.0.0.9:8087")]
    Address(String),
    #[error("{0:?} is no IPv4 multicast group: expected such as udp://239.2.3.1:6969?interface=10.0.0.3")]
    Group(String),
    #[error("the option {0:?} is unknown: tls:// has ?name=NAME, udp:// has ?interface=ADDRESS")]
    Option(String),
    #[error("{0:?} is no address to listen at: expected such as tcp://127.0.0.1:8087")]
    Listen(String),
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| EndpointError::Form(text.to_owned()))?;
        let (address, option) = match rest.split_once('?') {
            Some((address, option)) => (address, Some(option.split_once('=').unwrap_or((option, "")))),
            None => (rest, None),
        };
        let unknown = |(key, _): (&str, &str)| EndpointError::Option(key.to_owned());
        match (scheme, option) {
            ("tcp", None) => Ok(Self::Tcp { address: checked(address, text)?.to_owned() }),
            ("tls", None) => {
                Ok(Self::Tls { address: checked(address, text)?.to_owned(), name: host(address).to_owned() })
            }
            ("tls", Some(("name", name))) if !name.is_empty() => {
                Ok(Self::Tls { address: checked(address, text)?.to_owned(), name: name.to_owned() })
            }
            ("udp", None) => Ok(Self::Multicast { group: group(address, text)?, interface: None }),
            ("udp", Some(("interface", interface))) => {
                let interface = interface.parse().map_err(|_| EndpointError::Group(text.to_owned()))?;
                Ok(Self::Multicast { group: group(address, text)?, interface: Some(interface) })
            }
            ("tcp" | "tls" | "udp", Some(option)) => Err(unknown(option)),
            _ => Err(EndpointError::Form(text.to_owned())),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let address = text.strip_prefix("tcp://").and_then(|address| address.parse().ok());
        address.map(Self).ok_or_else(|| EndpointError::Listen(text.to_owned()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { address } => write!(f, "tcp://{address}"),
            Self::Tls { address, .. } => write!(f, "tls://{address}"),
            Self::Multicast { group, .. } => write!(f, "udp://{group}"),
        }
    }
}

fn checked<'a>(address: &'a str, text: &str) -> Result<&'a str, EndpointError> {
    let wrong = || EndpointError::Address(text.to_owned());
    roost_services::check_address(address).map_err(|_| wrong())?;
    Ok(address)
}

/// The host of `HOST:PORT`, an IPv6 address without its brackets.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

fn group(address: &str, text: &str) -> Result<SocketAddrV4, EndpointError> {
    let group = address.parse::<SocketAddrV4>().ok().filter(|group| group.ip().is_multicast() && group.port() > 0);
    group.ok_or_else(|| EndpointError::Group(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read() {
        let read = |text: &str| text.parse::<Endpoint>();
        assert_eq!(read("tcp://tak.example:8087"), Ok(Endpoint::Tcp { address: "tak.example:8087".to_owned() }));
        let tls = |address: &str, name: &str| Ok(Endpoint::Tls { address: address.to_owned(), name: name.to_owned() });
        assert_eq!(read("tls://[::1]:8089"), tls("[::1]:8089", "::1"));
        assert_eq!(read("tls://10.0.0.9:8089?name=takserver"), tls("10.0.0.9:8089", "takserver"));
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 2, 3, 1), 6969);
        let interface = Some(Ipv4Addr::LOCALHOST);
        assert_eq!(read("udp://239.2.3.1:6969?interface=127.0.0.1"), Ok(Endpoint::Multicast { group, interface }));
        assert_eq!(read("udp://239.2.3.1:6969").map(|read| read.to_string()), Ok("udp://239.2.3.1:6969".to_owned()));
    }

    #[test]
    fn wrong_endpoints_name_the_error() {
        for (text, part) in [
            ("tak.example:8087", "no place of TAK"),
            ("http://a:1", "no place of TAK"),
            ("tcp://tak", "no port"),
            ("tcp://a:8087?name=b", "option \"name\""),
            ("udp://10.0.0.9:6969", "no IPv4 multicast group"),
            ("udp://239.2.3.1:6969?interface=eth0", "no IPv4 multicast group"),
            ("udp://239.2.3.1:6969?ttl=3", "option \"ttl\""),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!("udp://127.0.0.1:1".parse::<ListenAddress>().is_err());
    }
}
