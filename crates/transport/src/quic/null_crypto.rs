//! QUIC without secrets, for simulation. The handshake's messages have the sizes of TLS 1.3 with certificates on both
//! sides, nothing is encrypted, and every packet has room for the tag. So the packets have their real number and sizes,
//! and are the same in every run.

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{self, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

/// Bytes of the hybrid ClientHello, of the ServerHello, of the server's certificate with its other messages, and of the
/// client's.
const CLIENT_HELLO: usize = 340 + 1222;
const SERVER_HELLO: usize = 122 + 1088;
const SERVER_FLIGHT: usize = 1150;
const CLIENT_FLIGHT: usize = 950;
/// The tag of every cipher suite of TLS 1.3.
const TAG: usize = 16;

#[derive(Debug)]
pub(super) struct NullCrypto;

impl crypto::ClientConfig for NullCrypto {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        Ok(Box::new(NullSession::new(Side::Client, params)))
    }
}

impl crypto::ServerConfig for NullCrypto {
    fn initial_keys(&self, _version: u32, _cid: &ConnectionId) -> Result<Keys, crypto::UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _version: u32, _cid: &ConnectionId, _packet: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(self: Arc<Self>, _version: u32, params: &TransportParameters) -> Box<dyn crypto::Session> {
        Box::new(NullSession::new(Side::Server, params))
    }
}

/// The state of one side of a handshake.
struct NullSession {
    side: Side,
    own: Vec<u8>,
    theirs: Option<TransportParameters>,
    heard: Vec<u8>,
    step: HandshakeStep,
}

/// The next step of a side in the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HandshakeStep {
    /// Send this many bytes, and change the keys if the flag is set.
    Say(usize, bool),
    Hear(usize),
    Done,
}

impl NullSession {
    fn new(side: Side, params: &TransportParameters) -> Self {
        let mut own = Vec::new();
        params.write(&mut own);
        let step =
            if side.is_client() { HandshakeStep::Say(CLIENT_HELLO, false) } else { HandshakeStep::Hear(CLIENT_HELLO) };
        Self { side, own, theirs: None, heard: Vec::new(), step }
    }

    /// The step after the one that has just been done.
    const fn next(&self) -> HandshakeStep {
        match (self.side, self.step) {
            (Side::Client, HandshakeStep::Say(CLIENT_HELLO, _)) => HandshakeStep::Hear(SERVER_HELLO),
            // No bytes are sent here; only the keys change.
            (Side::Client, HandshakeStep::Hear(SERVER_HELLO)) => HandshakeStep::Say(0, true),
            (Side::Client, HandshakeStep::Say(0, _)) => HandshakeStep::Hear(SERVER_FLIGHT),
            (Side::Client, HandshakeStep::Hear(SERVER_FLIGHT)) => HandshakeStep::Say(CLIENT_FLIGHT, true),
            (Side::Server, HandshakeStep::Hear(CLIENT_HELLO)) => HandshakeStep::Say(SERVER_HELLO, true),
            (Side::Server, HandshakeStep::Say(SERVER_HELLO, _)) => HandshakeStep::Say(SERVER_FLIGHT, true),
            (Side::Server, HandshakeStep::Say(SERVER_FLIGHT, _)) => HandshakeStep::Hear(CLIENT_FLIGHT),
            _ => HandshakeStep::Done,
        }
    }

    /// Reads the transport parameters at the beginning of the messages that carry them.
    fn read_parameters(&mut self, message: &[u8]) {
        let carries = matches!(self.step, HandshakeStep::Hear(CLIENT_HELLO | SERVER_FLIGHT));
        let Some((length, rest)) = message.split_first_chunk().filter(|_| carries) else { return };
        let parameters = rest.get(..usize::from(u16::from_be_bytes(*length)));
        let read = parameters.and_then(|bytes| TransportParameters::read(self.side, &mut Cursor::new(bytes)).ok());
        self.theirs = read;
    }
}

impl crypto::Session for NullSession {
    fn initial_keys(&self, _cid: &ConnectionId, _side: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(false)
    }

    fn is_handshaking(&self) -> bool {
        self.step != HandshakeStep::Done
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.heard.extend_from_slice(bytes);
        while let HandshakeStep::Hear(length) = self.step
            && self.heard.len() >= length
        {
            let rest = self.heard.split_off(length);
            let message = std::mem::replace(&mut self.heard, rest);
            self.read_parameters(&message);
            self.step = self.next();
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.theirs)
    }

    fn write_handshake(&mut self, into: &mut Vec<u8>) -> Option<Keys> {
        let HandshakeStep::Say(length, with_keys) = self.step else { return None };
        let begin = into.len();
        if matches!(length, CLIENT_HELLO | SERVER_FLIGHT) {
            // The parameters have a few hundred bytes at most.
            into.extend_from_slice(&(self.own.len() as u16).to_be_bytes());
            into.extend_from_slice(&self.own);
        }
        into.resize(begin + length, 0);
        self.step = self.next();
        with_keys.then(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(KeyPair { local: Box::new(NullKey), remote: Box::new(NullKey) })
    }

    fn is_valid_retry(&self, _cid: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        true
    }

    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// A key that changes nothing in a packet.
struct NullKey;

fn keys() -> Keys {
    Keys {
        header: KeyPair { local: Box::new(NullKey), remote: Box::new(NullKey) },
        packet: KeyPair { local: Box::new(NullKey), remote: Box::new(NullKey) },
    }
}

impl HeaderKey for NullKey {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        TAG
    }
}

impl PacketKey for NullKey {
    fn encrypt(&self, _packet: u64, _buf: &mut [u8], _header_len: usize) {}

    fn decrypt(&self, _packet: u64, _header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let length = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        payload.truncate(length);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}
