//! The settings of quinn: limits, timers and TLS configurations.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{AckFrequencyConfig, ClientConfig, EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};
use roost_identity::tls;
use roost_wire::RoleSet;

use super::probing::Probing;
use super::stateless_reset::Ids;
use crate::multipath::{MAX_CHUNK_BYTES, MAX_COPIES, WINDOW_BYTES};
use crate::stateless_reset::reset_token;
use crate::transport::Context;

/// The most streams that a remote may have open: chunks that are not read yet. A sender has fewer under way, so that
/// there is always one for a heartbeat.
pub(super) const MAX_STREAMS: u32 = MAX_COPIES as u32 + 512;
/// The allowance of a new QUIC connection. quinn keeps 17 bytes for each stream that may be opened, and most nodes of a
/// hub never use more.
pub(super) const FIRST_STREAMS: u32 = 50;
/// The time for which an idle QUIC connection is kept. The application checks if a remote is alive, and probes at this
/// layer would cost bytes.
const IDLE: Duration = Duration::from_secs(600);
/// The time for which the remote may delay an acknowledgement. QUIC's default of 25 ms would delay the detection of
/// every loss at the end of a message by as much.
const ACK_DELAY: Duration = Duration::from_millis(5);
/// As [`ACK_DELAY`], with several paths, where a late chunk is sent on another one.
const PROMPT_ACK_DELAY: Duration = Duration::from_millis(1);
/// The round trip assumed before a measurement. QUIC's default is a third of a second.
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// Room for waiting datagrams in each direction, bytes.
pub(super) const DATAGRAM_BUFFER: usize = 1 << 20;
/// Bytes from a remote that are not read yet: more than a connection has under way. A stream must never wait for this
/// window, because quinn wakes waiting streams in no order, and a chunk might wait forever.
const RECEIVE_WINDOW: u32 = WINDOW_BYTES as u32 + (1 << 20);
/// Bytes of strangers' handshakes that quinn may hold.
const INCOMING_BUFFER: u64 = 1 << 20;

/// The least time between two packets which say that a connection is unknown here. After a restart all remotes must
/// learn that, a thousand in a second.
const RESET_PAUSE: Duration = Duration::from_millis(1);

/// Configures a socket. The reset tokens follow from `key`, and so do the connection ids, so that ids of an earlier run
/// are recognized as ours.
pub(super) fn endpoint(key: hmac::Key) -> EndpointConfig {
    let mut ids = [0; 8];
    ids.copy_from_slice(&reset_token(&key, b"connection ids")[..8]);
    let ids = u64::from_be_bytes(ids);
    let mut config = EndpointConfig::new(Arc::new(key));
    config.cid_generator(move || Box::new(Ids::new(ids))).min_reset_interval(RESET_PAUSE);
    config
}

/// The timing of a dial's first packets.
#[derive(Clone, Copy)]
pub(super) struct Flight {
    /// The connection has several paths, or will have.
    pub(super) has_several: bool,
    /// The round trip to assume: the first packet is repeated after three of them.
    pub(super) rtt: Duration,
}

impl Flight {
    pub(super) const DEFAULT: Self = Self { has_several: false, rtt: INITIAL_RTT };
}

/// The settings of a QUIC connection with packets of this size.
pub(super) fn transport(packet_bytes: usize, probing: &Probing, flight: Flight) -> Arc<TransportConfig> {
    let Flight { has_several, rtt } = flight;
    let mut ack = AckFrequencyConfig::default();
    ack.max_ack_delay(Some(if has_several { PROMPT_ACK_DELAY } else { ACK_DELAY }));
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(FIRST_STREAMS))
        .stream_receive_window(VarInt::from_u32(2 * MAX_CHUNK_BYTES as u32))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .send_window(u64::from(RECEIVE_WINDOW))
        .send_fairness(false)
        .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
        .keep_alive_interval(None)
        .ack_frequency_config(Some(ack))
        .initial_rtt(rtt)
        .congestion_controller_factory(Arc::new(probing.clone()))
        // `u16` holds it, since a packet has at most 8000 bytes.
        .initial_mtu(packet_bytes as u16)
        .mtu_discovery_config(None)
        .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER))
        .datagram_send_buffer_size(DATAGRAM_BUFFER);
    Arc::new(config)
}

/// The settings of a listener. Each QUIC connection is accepted with those of [`accepting`].
pub(super) fn server(context: &Context) -> Result<ServerConfig, String> {
    let tls = tls::server_config(&context.identity, &context.policy, context.admit, context.key_exchange)
        .map_err(|error| error.to_string())?;
    let crypto = QuicServerConfig::try_from(tls).map_err(|error| error.to_string())?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.max_incoming(context.limits.handshakes).incoming_buffer_size_total(INCOMING_BUFFER);
    Ok(config)
}

/// The settings of one accepted QUIC connection.
pub(super) fn accepting(
    server: &ServerConfig,
    context: &Context,
    probing: &Probing,
    has_several: bool,
) -> Arc<ServerConfig> {
    let mut config = server.clone();
    config.transport_config(transport(context.limits.packet(), probing, Flight { has_several, ..Flight::DEFAULT }));
    Arc::new(config)
}

/// The settings for dialing a remote with one of the roles in `expect`.
pub(super) fn client(
    context: &Context,
    expect: RoleSet,
    probing: &Probing,
    flight: Flight,
) -> Result<ClientConfig, String> {
    let tls = tls::client_config(&context.identity, &context.policy, expect, context.key_exchange)
        .map_err(|error| error.to_string())?;
    let crypto = QuicClientConfig::try_from(tls).map_err(|error| error.to_string())?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport(context.limits.packet(), probing, flight));
    Ok(config)
}
