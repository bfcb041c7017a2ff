//! The printed form of an invitation: `roost://HOST:PORT/join#TOKEN.FINGERPRINT`.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::{constant_time, rand};
use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::fingerprint::Fingerprint;

const TOKEN_BYTES: usize = 16;

/// The longest `HOST:PORT`: a DNS name has 253 bytes.
const MAX_AUTHORITY_BYTES: usize = 260;

/// The text is not an address of an invitation or an authority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    #[error("it is not an invitation: expected roost://HOST:PORT/join#TOKEN.FINGERPRINT, whole and as it was printed")]
    Invitation,
    #[error("{0:?} is not the address of an authority: expected HOST:PORT, such as 10.0.0.1:7703")]
    Authority(String),
}

/// The secret of an invitation. Who has it may join once for each of the invitation's uses.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; TOKEN_BYTES]);

impl Token {
    pub(crate) fn random() -> Result<Self, aws_lc_rs::error::Unspecified> {
        let mut bytes = [0; TOKEN_BYTES];
        rand::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The id by which the operator's lists and audit records name the invitation.
    pub fn id(&self) -> String {
        self.digest().short().to_owned()
    }

    pub(crate) fn digest(&self) -> TokenDigest {
        TokenDigest(BASE64URL_NOPAD.encode(&Sha256::digest(self.0)))
    }
}

impl fmt::Debug for Token {
    /// Leaves out the token, so that it never reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64URL_NOPAD.encode(&self.0))
    }
}

impl FromStr for Token {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| AddressError::Invitation)?;
        bytes.try_into().map(Self).map_err(|_| AddressError::Invitation)
    }
}

/// SHA-256 of a token, base64url: all that the group keeps of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TokenDigest(String);

impl TokenDigest {
    pub(crate) fn matches(&self, other: &Self) -> bool {
        constant_time::verify_slices_are_equal(self.0.as_bytes(), other.0.as_bytes()).is_ok()
    }

    /// The first eight characters, by which the operator's lists name the invitation.
    pub(crate) fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

/// All that a device needs to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationAddress {
    pub authority: String,
    pub token: Token,
    /// The digest of the authority's certificate, DER.
    pub fingerprint: Fingerprint,
}

impl fmt::Display for InvitationAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "roost://{}/join#{}.{}", self.authority, self.token, self.fingerprint)
    }
}

impl FromStr for InvitationAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let parts = || {
            let (authority, secret) = text.trim().strip_prefix("roost://")?.split_once("/join#")?;
            let (token, fingerprint) = secret.split_once('.')?;
            check_authority(authority).ok()?;
            let (token, fingerprint) = (token.parse().ok()?, fingerprint.parse().ok()?);
            Some(Self { authority: authority.to_owned(), token, fingerprint })
        };
        parts().ok_or(AddressError::Invitation)
    }
}

/// Checks that `text` is `HOST:PORT`, with an IPv6 host in brackets.
///
/// # Errors
/// It is not.
pub fn check_authority(text: &str) -> Result<(), AddressError> {
    let (host, port) = text.rsplit_once(':').unwrap_or_default();
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_host = match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)),
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port != 0);
    if is_host && is_port && text.len() <= MAX_AUTHORITY_BYTES {
        Ok(())
    } else {
        Err(AddressError::Authority(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_round_trips() {
        for authority in ["10.0.0.1:7703", "[fd00::1]:7703", "ca.example.org:1"] {
            let (token, fingerprint) = (Token::random().unwrap(), Fingerprint::digest(b"x"));
            let address = InvitationAddress { authority: authority.to_owned(), token, fingerprint };
            let text = address.to_string();
            assert_eq!(text.parse(), Ok(address.clone()));
            assert!(!format!("{address:?}").contains(&address.token.to_string()));
            for len in 0..text.len() {
                assert_eq!(text[..len].parse::<InvitationAddress>(), Err(AddressError::Invitation));
            }
        }
    }

    #[test]
    fn authority_addresses_are_checked() {
        for wrong in ["", "host", ":7703", "host:", "host:0", "host:70000", "fd00::1:7703", "a b:1", "u@h:1", "h/x:1"] {
            assert!(check_authority(wrong).is_err(), "{wrong}");
        }
    }
}
