//! Hubs as people name them: by endpoints, or by a service record of the DNS.

use std::fmt;
use std::str::FromStr;

use super::endpoint::{Endpoint, ParseEndpointError};
use super::scheme::Scheme;

/// A hub by the endpoints at which it listens, or hubs by one name for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubName {
    /// Written with commas between them; at least one.
    Endpoints(Vec<Endpoint>),
    Srv(SrvName),
}

/// The name of a service record (RFC 2782), whose targets are hubs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrvName {
    /// The transport of all targets, which the name's first two labels give.
    pub scheme: Scheme,
    pub name: String,
}

/// The first labels of a name for each transport.
const LABELS: [(&str, Scheme); 3] =
    [("_roost._udp.", Scheme::Udp), ("_roost._tcp.", Scheme::Tcp), ("_roost-quic._udp.", Scheme::Quic)];

/// The error of a text that names no hub.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseHubError {
    #[error(transparent)]
    Endpoint(#[from] ParseEndpointError),
    #[error(
        "{0:?} is no name of a service record: expected srv://_roost._udp.DOMAIN, srv://_roost._tcp.DOMAIN or srv://_roost-quic._udp.DOMAIN"
    )]
    Srv(String),
}

impl FromStr for HubName {
    type Err = ParseHubError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        match text.strip_prefix("srv://") {
            Some(name) => parse_srv(name).map(Self::Srv).ok_or_else(|| ParseHubError::Srv(text.to_owned())),
            None => {
                let endpoints = text.split(',').map(|part| part.trim().parse());
                Ok(Self::Endpoints(endpoints.collect::<Result<_, ParseEndpointError>>()?))
            }
        }
    }
}

fn parse_srv(name: &str) -> Option<SrvName> {
    let (labels, scheme) = LABELS.into_iter().find(|(labels, _)| name.starts_with(labels))?;
    let domain = name[labels.len()..].strip_suffix('.').unwrap_or(&name[labels.len()..]);
    let is_label = |label: &str| {
        let is_named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(is_named)
    };
    let is_name = name.len() <= 253 && domain.split('.').all(is_label);
    is_name.then(|| SrvName { scheme, name: format!("{labels}{domain}") })
}

impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoints(endpoints) => {
                let endpoints: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
                f.write_str(&endpoints.join(","))
            }
            Self::Srv(name) => name.fmt(f),
        }
    }
}

impl fmt::Display for SrvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "srv://{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_names_print_as_read() {
        for text in [
            "udp://127.0.0.1:7700",
            "quic://sn1.example:7701,udp://sn1.example:7700",
            "srv://_roost._udp.example.org",
            "srv://_roost._tcp.hubs.example.org",
            "srv://_roost-quic._udp.example.org",
        ] {
            assert_eq!(text.parse::<HubName>().unwrap().to_string(), text);
        }
        let rooted: HubName = "srv://_roost._udp.example.org.".parse().unwrap();
        assert_eq!(rooted.to_string(), "srv://_roost._udp.example.org");
    }

    #[test]
    fn first_labels_give_transport() {
        for (name, scheme) in LABELS {
            let text = format!("srv://{name}example.org");
            assert!(matches!(text.parse(), Ok(HubName::Srv(name)) if name.scheme == scheme), "{text}");
        }
    }

    #[test]
    fn malformed_names_say_what_is_wrong() {
        for text in [
            "srv://example.org",
            "srv://_sip._udp.example.org",
            "srv://_roost._udp.",
            "srv://_roost._udp.a..b",
            "srv://_roost._udp.example.org:7700",
            "srv://_roost._udp.example.org,udp://h:1",
        ] {
            let error = text.parse::<HubName>().unwrap_err().to_string();
            assert!(error.contains("expected srv://_roost._udp.DOMAIN"), "{text}: {error}");
        }
        assert!(
            "udp://h:1,srv://_roost._udp.example.org".parse::<HubName>().unwrap_err().to_string().contains("scheme")
        );
    }
}
