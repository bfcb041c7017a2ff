//! Endpoints as people write them.
//!
//! The notation is that of Knauth et al. 2004 (`diop://`, `iiop://`,
//! `sciop://host1+host2:port`) with the names of today's transports.

use std::fmt;
use std::str::FromStr;

use super::scheme::Scheme;
use crate::congestion::Congestion;

/// The most hosts one endpoint names: one for each network path.
pub const MAX_HOSTS: usize = 4;

/// An address to listen at or to dial, as an operator writes it:
/// `udp://host:port`, `tcp://host:port`, `quic://host1+host2:port?cc=rate`.
///
/// Hosts are names or IP addresses; the driver resolves names. An IPv6 address
/// stands in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub scheme: Scheme,
    /// At most [`MAX_HOSTS`] hosts and at least one, without brackets; only `quic` takes more than one.
    pub hosts: Vec<String>,
    /// The port; 0 lets the system choose when listening.
    pub port: u16,
    /// The congestion control of all connections from and to here, if not the usual
    /// one; only `quic` has a choice, and only who listens.
    pub congestion: Option<Congestion>,
}

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
}
