use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use roost_wire::Address;

use super::MediaSocket;
use crate::Failure;
use crate::config::{Kind, Setting};

const HUB_PORT: u16 = 7700;
const MEDIA_PORT: u16 = 7702;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediaAddress {
    /// The first address that the daemon listens at, with port 7702 beside 7700, else with a port that the system
    /// chooses.
    #[default]
    Auto,
    Off,
    At(SocketAddr),
}

impl FromStr for MediaAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            address => {
                let wrong = |_| format!("{text:?} is neither auto nor off, nor IP:PORT such as 0.0.0.0:7702");
                address.parse().map(Self::At).map_err(wrong)
            }
        }
    }
}

impl MediaAddress {
    pub fn setting(doc: &'static str) -> Setting {
        let check = |text: &str| text.parse::<Self>().map(drop);
        Setting {
            key: "media",
            kind: Kind::Other { name: "auto|off|IP:PORT", check, example: "0.0.0.0:7702" },
            default: "auto".to_owned(),
            doc,
            choose: "A UDP port that the firewall opens, at a host on which the daemon listens, or at 0.0.0.0 for all hosts. With `auto` it is at the first listening host, with port 7702 if the daemon listens there at port 7700, else with a free port.",
            reload: false,
        }
    }

    /// Binds the relay's socket, for a daemon that listens at `listening`.
    ///
    /// # Errors
    /// Fails if the system refuses the address.
    pub fn bind(self, listening: &[Address]) -> Result<Option<MediaSocket>, Failure> {
        let at = match self {
            Self::Off => return Ok(None),
            Self::At(address) => address,
            Self::Auto => beside(listening),
        };
        let failed = |error| Failure::failed(format!("cannot receive streams at {at}: {error}; change `media`"));
        MediaSocket::at(at).map(Some).map_err(failed)
    }
}

/// The address of [`MediaAddress::Auto`].
fn beside(listening: &[Address]) -> SocketAddr {
    let first = listening.first().and_then(|address| Some((address.hosts.first()?, address.port)));
    match first {
        Some((host, port)) => SocketAddr::new(*host, if port == HUB_PORT { MEDIA_PORT } else { 0 }),
        None => SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 0),
    }
}

#[cfg(test)]
mod tests {
    use roost_wire::Scheme;

    use super::*;

    #[test]
    fn media_address_is_parsed() {
        assert_eq!("auto".parse(), Ok(MediaAddress::Auto));
        assert_eq!("off".parse(), Ok(MediaAddress::Off));
        assert_eq!("10.0.0.1:5".parse(), Ok(MediaAddress::At(SocketAddr::from(([10, 0, 0, 1], 5)))));
        assert!("7702".parse::<MediaAddress>().unwrap_err().contains("IP:PORT"));
    }

    #[test]
    fn auto_address_derives_from_listen_address() {
        let place = |port| beside(&[Address::single(Scheme::Udp, SocketAddr::from(([127, 0, 0, 1], port)))]);
        assert_eq!(place(7700), SocketAddr::from(([127, 0, 0, 1], 7702)));
        assert_eq!(place(7710), SocketAddr::from(([127, 0, 0, 1], 0)));
        assert_eq!(beside(&[]), SocketAddr::from(([0, 0, 0, 0], 0)));
    }
}
