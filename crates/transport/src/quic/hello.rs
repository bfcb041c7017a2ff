//! The greetings on a QUIC connection. The dialing side says if it is a new connection or another path of one that is
//! up, and the listener answers.
//!
//! Each greeting is a stream of its own. A side that adds a path proves that it has the first QUIC connection, with a
//! code over secrets of both. Its certificate proves that it is the same remote.

use std::convert::Infallible;
use std::net::IpAddr;

use aws_lc_rs::hmac;
use minicbor::encode::Error;
use minicbor::{Decoder, Encoder};
use quinn::{Connection, ConnectionError, ReadError, ReadToEndError, RecvStream};

use crate::multipath::MAX_PATHS;

/// The longest greeting of either side, bytes.
const MAX_GREETING: usize = 256;
/// The exporter labels of the secrets of a QUIC connection (RFC 8446, section 7.5).
const OF_CONNECTION: &[u8] = b"EXPORTER-roost-link";
const OF_PATH: &[u8] = b"EXPORTER-roost-path";
const SECRET_BYTES: usize = 32;

/// The connection's number at the side that was dialed.
type ConnectionNumber = u64;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hello {
    Connection,
    Path { connection: ConnectionNumber, code: Vec<u8> },
}

/// The listener's answer, once it has accepted the dialing side.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HelloAck {
    pub(super) connection: ConnectionNumber,
    /// Other addresses at which the listener listens at the same port, if there are several.
    pub(super) hosts: Vec<IpAddr>,
}

/// The secret by which another QUIC connection proves that it belongs to a connection.
#[derive(Clone)]
pub(super) struct ConnectionKey(hmac::Key);

impl ConnectionKey {
    /// Derives the key from a connection's first QUIC connection. It is the same at both ends.
    pub(super) fn from_connection(quinn_connection: &Connection) -> Option<Self> {
        Some(Self(hmac::Key::new(hmac::HMAC_SHA256, &secret(quinn_connection, OF_CONNECTION)?)))
    }

    /// The code that proves on `quinn_connection` the possession of this key.
    pub(super) fn code(&self, quinn_connection: &Connection) -> Option<Vec<u8>> {
        Some(hmac::sign(&self.0, &secret(quinn_connection, OF_PATH)?).as_ref().to_vec())
    }

    pub(super) fn verify(&self, quinn_connection: &Connection, code: &[u8]) -> bool {
        secret(quinn_connection, OF_PATH).is_some_and(|secret| hmac::verify(&self.0, &secret, code).is_ok())
    }
}

fn secret(quinn_connection: &Connection, label: &[u8]) -> Option<[u8; SECRET_BYTES]> {
    let mut secret = [0; SECRET_BYTES];
    quinn_connection.export_keying_material(&mut secret, label, b"").ok()?;
    Some(secret)
}

impl Hello {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        let written = match self {
            Self::Connection => encoder.array(0).map(drop),
            Self::Path { connection, code } => {
                encoder.array(2).and_then(|it| it.u64(*connection)?.bytes(code)).map(drop)
            }
        };
        debug_assert!(written.is_ok(), "writing to memory does not fail");
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(bytes);
        match decoder.array().ok()?? {
            0 => Some(Self::Connection),
            2 => Some(Self::Path { connection: decoder.u64().ok()?, code: decoder.bytes().ok()?.to_vec() }),
            _ => None,
        }
    }
}

impl HelloAck {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        let hosts = &self.hosts[..self.hosts.len().min(MAX_PATHS)];
        let begun = encoder.array(1 + hosts.len() as u64).and_then(|it| it.u64(self.connection)).map(drop);
        let written = begun.and_then(|()| write_hosts(&mut encoder, hosts));
        debug_assert!(written.is_ok(), "writing to memory does not fail");
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(bytes);
        let count = decoder.array().ok()??.checked_sub(1).filter(|count| *count <= MAX_PATHS as u64)?;
        let connection = decoder.u64().ok()?;
        let hosts = (0..count).map(|_| read_host(&mut decoder)).collect::<Option<_>>()?;
        Some(Self { connection, hosts })
    }
}

/// Writes hosts, each as the bytes of its address.
pub(super) fn write_hosts(encoder: &mut Encoder<&mut Vec<u8>>, hosts: &[IpAddr]) -> Result<(), Error<Infallible>> {
    hosts.iter().try_for_each(|host| match host {
        IpAddr::V4(ip) => encoder.bytes(&ip.octets()).map(drop),
        IpAddr::V6(ip) => encoder.bytes(&ip.octets()).map(drop),
    })
}

pub(super) fn read_host(decoder: &mut Decoder<'_>) -> Option<IpAddr> {
    let host = decoder.bytes().ok()?;
    let v4 = <[u8; 4]>::try_from(host).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(host).map(IpAddr::from)).ok()
}

/// The reason for which a greeting did not arrive.
pub(super) enum HelloError {
    Lost(ConnectionError),
    Nonsense,
}

pub(super) async fn send_hello(quinn_connection: &Connection, hello: &Hello) -> Result<(), ConnectionError> {
    send_stream(quinn_connection, &hello.write()).await
}

pub(super) async fn send_hello_ack(quinn_connection: &Connection, welcome: &HelloAck) -> Result<(), ConnectionError> {
    send_stream(quinn_connection, &welcome.write()).await
}

pub(super) async fn receive_hello(quinn_connection: &Connection) -> Result<Hello, HelloError> {
    Hello::read(&receive_stream(quinn_connection).await?).ok_or(HelloError::Nonsense)
}

pub(super) async fn receive_hello_ack(quinn_connection: &Connection) -> Result<HelloAck, HelloError> {
    HelloAck::read(&receive_stream(quinn_connection).await?).ok_or(HelloError::Nonsense)
}

pub(super) async fn send_stream(quinn_connection: &Connection, bytes: &[u8]) -> Result<(), ConnectionError> {
    let mut stream = quinn_connection.open_uni().await?;
    // A remote that does not read the stream closes the QUIC connection, which its reader notices.
    let _ = stream.write_all(bytes).await;
    let _ = stream.finish();
    Ok(())
}

async fn receive_stream(quinn_connection: &Connection) -> Result<Vec<u8>, HelloError> {
    let mut stream: RecvStream = quinn_connection.accept_uni().await.map_err(HelloError::Lost)?;
    match stream.read_to_end(MAX_GREETING).await {
        Ok(bytes) => Ok(bytes),
        Err(ReadToEndError::Read(ReadError::ConnectionLost(error))) => Err(HelloError::Lost(error)),
        Err(_) => Err(HelloError::Nonsense),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn hello_messages_round_trip(
            connection in any::<u64>(),
            code in prop::collection::vec(any::<u8>(), 0..64),
            hosts in prop::collection::vec(any::<IpAddr>(), 0..MAX_PATHS),
        ) {
            let hello = Hello::Path { connection, code };
            prop_assert_eq!(Hello::read(&hello.write()), Some(hello));
            let welcome = HelloAck { connection, hosts };
            prop_assert!(welcome.write().len() <= MAX_GREETING);
            prop_assert_eq!(HelloAck::read(&welcome.write()), Some(welcome));
        }

        #[test]
        fn nonsense_is_no_greeting(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = (Hello::read(&bytes), HelloAck::read(&bytes));
        }
    }

    #[test]
    fn plain_hello_costs_one_byte() {
        assert_eq!(Hello::Connection.write().len(), 1);
        assert_eq!(Hello::read(&[0x80]), Some(Hello::Connection));
        assert_eq!(HelloAck { connection: 7, hosts: Vec::new() }.write().len(), 2);
    }
}
