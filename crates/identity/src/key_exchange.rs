//! The key exchange of handshakes over TLS and QUIC.

use std::str::FromStr;

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group;

/// Two members with different exchanges connect, with the classic one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyExchange {
    /// X25519MLKEM768 first, so that a future quantum computer cannot read traffic recorded today.
    #[default]
    Hybrid,
    /// X25519 and P-256 alone, for thin links: an ML-KEM key and its answer take 2.4 KB of each handshake.
    Classic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected hybrid or classic")]
pub struct UnknownKeyExchange;

impl FromStr for KeyExchange {
    type Err = UnknownKeyExchange;

    fn from_str(text: &str) -> Result<Self, UnknownKeyExchange> {
        match text {
            "hybrid" => Ok(Self::Hybrid),
            "classic" => Ok(Self::Classic),
            _ => Err(UnknownKeyExchange),
        }
    }
}

impl KeyExchange {
    /// Of a dialer's groups the first one counts, if the listener has it.
    pub(crate) fn groups(self) -> Vec<&'static dyn SupportedKxGroup> {
        let classic = [kx_group::X25519, kx_group::SECP256R1];
        match self {
            Self::Hybrid => [kx_group::X25519MLKEM768].into_iter().chain(classic).collect(),
            Self::Classic => classic.to_vec(),
        }
    }
}
