//! Endpoints as people write them, and addresses as the wire carries them.
//!
//! The notation is that of Knauth et al. 2004 (`diop://`, `iiop://`,
//! `sciop://host1+host2:port`) with the names of today's transports.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use minicbor::{Decode, Encode};

use crate::congestion::Congestion;
use crate::messages::open::{self, open};

/// The most hosts one endpoint names: one for each network path.
pub const MAX_HOSTS: usize = 4;

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode)]
#[cbor(index_only)]
#[repr(u8)]
pub enum Scheme {
    /// DTLS 1.3 over UDP.
    #[n(0)]
    Udp = 0,
    /// TLS 1.3 over TCP.
    #[n(1)]
    Tcp = 1,
    /// QUIC.
    #[n(2)]
    Quic = 2,
}

open!(Scheme, [Udp, Tcp, Quic]);

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Udp, Self::Tcp, Self::Quic];

    /// The scheme's name in endpoints, flags and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheme {
    type Err = ParseSchemeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == text).ok_or_else(|| ParseSchemeError(text.to_owned()))
    }
}

/// Why a text names no transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown transport {0:?}: expected udp, tcp or quic")]
pub struct ParseSchemeError(String);

/// The transports that may serve a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Encode)]
#[cbor(transparent)]
pub struct SchemeSet(#[n(0)] u8);

impl SchemeSet {
    /// No transport.
    pub const EMPTY: Self = Self(0);
    /// Every transport.
    pub const ALL: Self = Self(0b111);

    /// The set with one transport in it.
    pub const fn only(scheme: Scheme) -> Self {
        Self(1 << scheme as u8)
    }

    /// This set and `scheme`.
    #[must_use]
    pub const fn with(self, scheme: Scheme) -> Self {
        Self(self.0 | 1 << scheme as u8)
    }

    /// Whether `scheme` is in the set.
    pub const fn contains(self, scheme: Scheme) -> bool {
        self.0 & 1 << scheme as u8 != 0
    }

    /// True if no transport is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Scheme> for SchemeSet {
    fn from_iter<I: IntoIterator<Item = Scheme>>(schemes: I) -> Self {
        schemes.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl<'b, C> Decode<'b, C> for SchemeSet {
    /// Leaves out transports of later versions.
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        Ok(Self(d.u64()? as u8 & Self::ALL.0))
    }
}

impl Default for SchemeSet {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Debug for SchemeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = Scheme::ALL.into_iter().filter(|scheme| self.contains(*scheme));
        f.debug_set().entries(members.map(Scheme::name)).finish()
    }
}

/// Where to listen or whom to call, as an operator writes it:
/// `udp://host:port`, `tcp://host:port`, `quic://host1+host2:port?cc=rate`.
///
/// Hosts are names or IP addresses; the driver resolves names. An IPv6 address
/// stands in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The transport.
    pub scheme: Scheme,
    /// One to [`MAX_HOSTS`] hosts, without brackets; only `quic` takes more than one.
    pub hosts: Vec<String>,
    /// The port; 0 lets the system choose when listening.
    pub port: u16,
    /// The congestion control of all connections from and to here, if not the usual
    /// one; only `quic` has a choice, and only who listens.
    pub congestion: Option<Congestion>,
}

/// Why a text is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not an endpoint: {reason}; expected udp://HOST:PORT, tcp://HOST:PORT or quic://HOST1+HOST2:PORT[?cc=rate]"
)]
pub struct ParseEndpointError {
    text: String,
    reason: &'static str,
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |reason| ParseEndpointError { text: text.to_owned(), reason };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let scheme: Scheme = scheme.parse().map_err(|_| wrong("its scheme is unknown"))?;
        let (rest, option) = rest.split_once('?').map_or((rest, None), |(rest, option)| (rest, Some(option)));
        // The last colon of [::1] is part of the address.
        let at_port = rest.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let (hosts, port) = at_port.ok_or_else(|| wrong("it has no port"))?;
        let port = port.parse().map_err(|_| wrong("its port is not a number up to 65535"))?;
        let hosts: Vec<String> = hosts
            .split('+')
            .map(|host| parse_host(host).ok_or_else(|| wrong("a host is malformed")))
            .collect::<Result<_, _>>()?;
        if hosts.len() > MAX_HOSTS {
            return Err(wrong("it names more than four hosts"));
        }
        if hosts.len() > 1 && scheme != Scheme::Quic {
            return Err(wrong("only quic takes more than one host"));
        }
        if option.is_some() && scheme != Scheme::Quic {
            return Err(wrong("only quic has a choice of congestion control"));
        }
        let name = option.map(|option| option.strip_prefix("cc=").ok_or_else(|| wrong("the only option is ?cc=")));
        let congestion = name.transpose()?.map(str::parse).transpose();
        let congestion = congestion.map_err(|_| wrong("its congestion control is not cubic, rate, udt or bbr"))?;
        Ok(Self { scheme, hosts, port, congestion })
    }
}

/// A host without its brackets; `None` if it is no name and no address.
fn parse_host(host: &str) -> Option<String> {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse::<std::net::Ipv6Addr>().is_ok().then(|| inner.to_owned());
    }
    let named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (!host.is_empty() && host.len() <= 253 && host.bytes().all(named)).then(|| host.to_owned())
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme)?;
        for (index, host) in self.hosts.iter().enumerate() {
            let plus = if index == 0 { "" } else { "+" };
            if host.contains(':') { write!(f, "{plus}[{host}]")? } else { write!(f, "{plus}{host}")? }
        }
        write!(f, ":{}", self.port)?;
        self.congestion.map_or(Ok(()), |congestion| write!(f, "?cc={congestion}"))
    }
}

/// An endpoint whose hosts are IP addresses: what records and requests carry.
///
/// On the wire: a byte string per host (4 or 16 bytes), so an IPv4 address
/// with scheme and port takes ten bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The transport.
    pub scheme: Scheme,
    /// The port, the same on every host.
    pub port: u16,
    /// One to [`MAX_HOSTS`] hosts.
    pub hosts: Vec<IpAddr>,
}

impl Address {
    /// The address with a single host.
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

    /// Whether a host of it means something on its own machine only: a
    /// loopback or unspecified one.
    pub fn has_local_host(&self) -> bool {
        self.hosts.iter().any(is_confined)
    }

    /// What of the address is of use on other machines; `None` if nothing is.
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
    fn endpoints_print_as_they_are_read() {
        for text in [
            "udp://127.0.0.1:7700",
            "tcp://sn1.example:0",
            "quic://10.0.0.1+10.0.1.1:7700",
            "udp://[::1]:9",
            "quic://[::1]:9?cc=rate",
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn malformed_endpoints_say_what_is_wrong() {
        for (text, reason) in [
            ("udp://[fd98::1]", "it has no port"),
            ("127.0.0.1:7700", "no scheme"),
            ("sctp://h:1", "scheme is unknown"),
            ("udp://h", "no port"),
            ("udp://h:70000", "port is not a number"),
            ("udp://:1", "host is malformed"),
            ("udp://a b:1", "host is malformed"),
            ("udp://::1:1", "host is malformed"),
            ("tcp://a+b:1", "only quic"),
            ("quic://a+b+c+d+e:1", "more than four"),
            ("quic://h:1?cc=reno", "is not cubic, rate, udt or bbr"),
            ("quic://h:1?rate", "the only option is ?cc="),
            ("tcp://h:1?cc=udt", "only quic has a choice"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

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
