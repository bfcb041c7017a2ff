//! Digests in place of names and addresses, for recordings that are given away.

use roost_api::RequestLine;
use roost_wire::{NodeId, NodeSelector};
use sha2::{Digest as _, Sha256};

/// Replaces names and addresses by digests with a word that the recorders of all hosts share. Equal ones stay equal, so
/// that recordings can still be merged. Whoever has the word can try names out, and a short word can be tried out, too.
#[derive(Clone, Debug)]
pub struct Redaction {
    word: Option<String>,
}

impl Redaction {
    pub const fn none() -> Self {
        Self { word: None }
    }

    pub const fn with_word(word: String) -> Self {
        Self { word: Some(word) }
    }

    pub const fn is_on(&self) -> bool {
        self.word.is_some()
    }

    pub fn name(&self, name: &str) -> String {
        self.word.as_ref().map_or_else(|| name.to_owned(), |word| format!("n-{}", digest(word, name)))
    }

    /// A request without names: that of its provider as it was typed, and the one that the provider gave.
    pub fn request(&self, line: RequestLine) -> RequestLine {
        match line {
            RequestLine::Began(mut began) => {
                began.provider = began.provider.map(|provider| self.selector(provider));
                RequestLine::Began(began)
            }
            RequestLine::Ended(mut ended) => {
                let name = ended.summary.as_mut().and_then(|summary| summary.provider_name.as_mut());
                name.into_iter().for_each(|name| *name = self.name(name));
                RequestLine::Ended(ended)
            }
            other => other,
        }
    }

    /// A whole id stays; the beginning of one may be a name as well.
    fn selector(&self, selector: NodeSelector) -> NodeSelector {
        let text = selector.as_str();
        if !self.is_on() || selector.is_everybody() || text.parse::<NodeId>().is_ok() {
            return selector;
        }
        // A digest is shorter than any name may be.
        self.name(text).parse().unwrap_or(NodeSelector::EVERYBODY)
    }

    /// An endpoint or address; transport and port stay. A loopback or unspecified address says nothing and stays, too.
    pub fn address(&self, address: &str) -> String {
        let Some(word) = &self.word else { return address.to_owned() };
        let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
        let (host, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
        let hidden = |host: &str| match host {
            "127.0.0.1" | "[::1]" | "0.0.0.0" | "[::]" => host.to_owned(),
            _ => format!("h-{}", digest(word, host)),
        };
        let host = host.split('+').map(hidden).collect::<Vec<_>>().join("+");
        let begin = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
        if port.is_empty() { format!("{begin}{host}") } else { format!("{begin}{host}:{port}") }
    }
}

fn digest(word: &str, text: &str) -> String {
    let digest = Sha256::digest(format!("{word}\0{text}").as_bytes());
    digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_stay_equal() {
        let (a, b) = (Redaction::with_word("x".to_owned()), Redaction::with_word("y".to_owned()));
        assert_eq!(a.name("uav1"), a.name("uav1"));
        assert_ne!(a.name("uav1"), b.name("uav1"));
        assert_eq!(Redaction::none().name("uav1"), "uav1");
    }

    #[test]
    fn address_keeps_transport_and_port() {
        let redaction = Redaction::with_word("x".to_owned());
        let hidden = redaction.address("udp://10.0.0.3:7711");
        assert!(hidden.starts_with("udp://h-") && hidden.ends_with(":7711"), "{hidden}");
        assert_eq!(hidden.replace("udp", "tcp"), redaction.address("tcp://10.0.0.3:7711"));
        assert_eq!(redaction.address("udp://127.0.0.1:9"), "udp://127.0.0.1:9");
        let [first, second] = ["10.0.0.3", "10.0.1.3"].map(|host| redaction.address(host));
        assert_eq!(redaction.address("quic://10.0.0.3+10.0.1.3:7"), format!("quic://{first}+{second}:7"));
    }
}
