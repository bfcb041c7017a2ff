//! quinn's settings for simulation: no secrets, sockets or randomness.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{hkdf, hmac};
use quinn_proto::{ClientConfig, ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, ServerConfig};

use crate::config::Limits;
use crate::quic::null_crypto::NullCrypto;
use crate::quic::probing::Probing;
use crate::quic::settings::{Flight, transport};

/// Connection ids as long as quinn's own, which only have to differ.
struct Numbered(u64);

impl ConnectionIdGenerator for Numbered {
    fn generate_cid(&mut self) -> ConnectionId {
        self.0 += 1;
        ConnectionId::new(&self.0.to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        size_of::<u64>()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The endpoint of one end, with all its QUIC connections.
pub(super) fn endpoint(is_incoming: bool) -> Endpoint {
    let reset = hmac::Key::new(hmac::HMAC_SHA256, &[u8::from(is_incoming); 64]);
    let mut config = EndpointConfig::new(Arc::new(reset));
    // A greased bit would make a packet look like none of QUIC, and tests nothing here.
    config.rng_seed(Some([3; 32])).grease_quic_bit(false).cid_generator(|| Box::new(Numbered(0)));
    Endpoint::new(Arc::new(config), is_incoming.then(|| Arc::new(server())), false, None)
}

pub(super) fn client(path: u8, probing: &Probing, has_several: bool) -> ClientConfig {
    let mut config = ClientConfig::new(Arc::new(NullCrypto));
    config.transport_config(transport(Limits::default().packet(), probing, Flight { has_several, ..Flight::DEFAULT }));
    config.initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&[7 + path; 20])));
    config
}

/// The settings for accepting one QUIC connection with its congestion control.
pub(super) fn server_of(probing: &Probing, has_several: bool) -> Arc<ServerConfig> {
    let mut config = server();
    let flight = Flight { has_several, ..Flight::DEFAULT };
    config.transport_config(transport(Limits::default().packet(), probing, flight));
    Arc::new(config)
}

/// The settings for accepting QUIC connections.
fn server() -> ServerConfig {
    let token = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&[5; 64]);
    ServerConfig::new(Arc::new(NullCrypto), Arc::new(token))
}
