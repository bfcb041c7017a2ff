//! Digests in place of names and addresses, for recordings that are given away.

use sha2::{Digest as _, Sha256};

/// Replaces names and addresses by digests with a word that the recorders of all hosts share. Equal ones stay equal, so
/// that recordings can still be merged; without the word nobody can try names out.
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

    /// An endpoint or address; transport and port stay. A loopback or unspecified address says nothing and stays, too.
    pub fn address(&self, address: &str) -> String {
        let Some(word) = &self.word else { return address.to_owned() };
        let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
        let (host, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
        let says_nothing = ["127.0.0.1", "[::1]", "0.0.0.0", "[::]"].contains(&host);
        let host = if says_nothing { host.to_owned() } else { format!("h-{}", digest(word, host)) };
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
    }
}
