//! Whole TLS handshakes in memory: for each refusal, on either side, both sides learn the reason.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use roost_identity::group::{Group, Validity};
use roost_identity::tls::{ALPN, client_config, provider, refusal_from_tls_error, server_config};
use roost_identity::{Identity, KeyExchange, Policy, Refusal, Side, read_unverified};
use roost_wire::{Role, RoleSet};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, Connection, HandshakeKind, NamedGroup, ServerConfig, ServerConnection};

const HOUR: Duration = Duration::from_secs(3600);

struct HandshakeFixture {
    dir: tempfile::TempDir,
    group: Group,
    policy: Arc<Policy>,
}

impl HandshakeFixture {
    fn new(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), name).unwrap();
        let policy = Policy::new(&group.issue_in_memory("any", Role::Node).unwrap()).unwrap();
        Self { dir, group, policy }
    }

    fn member(&self, name: &str) -> Arc<Identity> {
        self.group.issue_in_memory(name, Role::Node).unwrap().into()
    }

    /// A member that is valid only for the hour around `now + offset` hours.
    fn member_at(&self, offset: i64) -> Arc<Identity> {
        let middle = SystemTime::now();
        let shift = HOUR * u32::try_from(offset.unsigned_abs()).unwrap();
        let middle = if offset < 0 { middle - shift } else { middle + shift };
        let validity = Validity::Between { not_before: middle - HOUR / 2, not_after: middle + HOUR / 2 };
        self.group.issue_in_memory_with("timed", Role::Node, validity).unwrap().into()
    }

    fn revoked_member(&self) -> Arc<Identity> {
        let bundle = self.dir.path().join("revoked");
        self.group.issue("revoked", Role::Node, Validity::default(), &bundle).unwrap();
        self.group.revoke("revoked").unwrap();
        self.policy.reload().unwrap();
        Arc::new(Identity::load(&bundle).unwrap())
    }

    /// The group's CA certificate and key, presented as if they were a member's.
    fn authority(&self) -> Arc<SingleCertAndKey> {
        let dir = self.dir.path().join("group");
        let certificate = CertificateDer::from_pem_file(dir.join("group.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(dir.join("group.key")).unwrap();
        let certified = CertifiedKey::from_der(vec![certificate], key, &provider(KeyExchange::Hybrid)).unwrap();
        Arc::new(SingleCertAndKey::from(certified))
    }
}

type Outcome = Result<(), rustls::Error>;

/// Carries bytes between client and server until neither has more to send, and returns how each ended.
fn run(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> (Connection, Connection, Outcome, Outcome) {
    let name = ServerName::try_from("roost").unwrap();
    let mut client = Connection::from(ClientConnection::new(client, name).unwrap());
    let mut server = Connection::from(ServerConnection::new(server).unwrap());
    let (mut client_end, mut server_end) = (Ok(()), Ok(()));
    loop {
        let to_server = carry(&mut client, &mut server, &mut server_end);
        let to_client = carry(&mut server, &mut client, &mut client_end);
        if !to_server && !to_client {
            return (client, server, client_end, server_end);
        }
    }
}

/// Carries all that one side has to send. Returns true if any byte moved.
fn carry(from: &mut Connection, to: &mut Connection, end: &mut Outcome) -> bool {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).unwrap();
    }
    let mut rest = wire.as_slice();
    while !rest.is_empty() && end.is_ok() {
        to.read_tls(&mut rest).unwrap();
        *end = to.process_new_packets().map(drop);
    }
    !wire.is_empty()
}

/// The refusal that one side reads from its failed handshake.
type Learned = Option<(Side, Refusal)>;

/// The side that presents the certificate which is refused.
#[derive(Clone, Copy, Debug)]
enum Presents {
    Client,
    Server,
}

/// Runs a handshake in which one side presents `bad` and the other requires `roles`. Returns the refusal that the
/// refusing side and the refused side read from it.
fn refused(
    world: &HandshakeFixture,
    bad: &Arc<Identity>,
    swap: Option<Arc<SingleCertAndKey>>,
    roles: RoleSet,
    presents: Presents,
) -> (Learned, Learned) {
    let good = world.member("good");
    let (policy, all) = (&world.policy, RoleSet::ALL);
    let (client_identity, server_identity) = match presents {
        Presents::Client => (bad, &good),
        Presents::Server => (&good, bad),
    };
    let (expect, admit) = match presents {
        Presents::Client => (all, roles),
        Presents::Server => (roles, all),
    };
    let mut client = client_config(client_identity, policy, expect, KeyExchange::Hybrid).unwrap();
    let mut server = server_config(server_identity, policy, admit, KeyExchange::Hybrid).unwrap();
    match (presents, swap) {
        (Presents::Client, Some(other)) => Arc::make_mut(&mut client).client_auth_cert_resolver = other,
        (Presents::Server, Some(other)) => Arc::make_mut(&mut server).cert_resolver = other,
        (_, None) => {}
    }
    let (_, _, client_end, server_end) = run(client, server);
    let reason = |end: Outcome| refusal_from_tls_error(&end.unwrap_err());
    match presents {
        Presents::Client => (reason(server_end), reason(client_end)),
        Presents::Server => (reason(client_end), reason(server_end)),
    }
}

fn check(
    world: &HandshakeFixture,
    bad: &Arc<Identity>,
    swap: Option<Arc<SingleCertAndKey>>,
    roles: RoleSet,
    refusal: Refusal,
) {
    // `unknown_ca` tells the refused side that the verifier belongs to another group.
    let told = if refusal == Refusal::UnknownAuthority { Refusal::WrongGroup } else { refusal };
    for presents in [Presents::Client, Presents::Server] {
        let (ours, theirs) = refused(world, bad, swap.clone(), roles, presents);
        assert_eq!(ours, Some((Side::Local, refusal)), "{presents:?} presents");
        assert_eq!(theirs, Some((Side::Remote, told)), "{presents:?} presents");
    }
}

#[test]
fn members_meet_and_know_each_other() {
    let world = HandshakeFixture::new("alpha");
    let (a, b) = (world.member("a"), Arc::new(world.group.issue_in_memory("b", Role::SuperNode).unwrap()));
    let client = client_config(&a, &world.policy, RoleSet::only(Role::SuperNode), KeyExchange::Hybrid).unwrap();
    let server = server_config(&b, &world.policy, RoleSet::only(Role::Node), KeyExchange::Hybrid).unwrap();
    let (client, server, client_end, server_end) = run(client, server);
    assert_eq!((client_end, server_end), (Ok(()), Ok(())));
    assert!(!client.is_handshaking() && !server.is_handshaking());
    assert_eq!(client.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    assert_eq!((client.alpn_protocol(), server.alpn_protocol()), (Some(ALPN), Some(ALPN)));
    let seen = |connection: &Connection| read_unverified(&connection.peer_certificates().unwrap()[0]).unwrap();
    assert_eq!((seen(&client).node, seen(&client).role), (b.node(), Role::SuperNode));
    assert_eq!((seen(&server).node, seen(&server).name), (a.node(), "a".to_owned()));
}

/// A hybrid dialer sends an X25519 key beside the hybrid one, so a classic listener needs no second round trip.
#[test]
fn key_exchange_is_hybrid_if_both_agree() {
    let world = HandshakeFixture::new("alpha");
    let (a, b) = (world.member("a"), world.member("b"));
    let exchanges = [KeyExchange::Hybrid, KeyExchange::Classic];
    for (ours, theirs) in exchanges.into_iter().flat_map(|ours| exchanges.map(|theirs| (ours, theirs))) {
        let client = client_config(&a, &world.policy, RoleSet::ALL, ours).unwrap();
        let server = server_config(&b, &world.policy, RoleSet::ALL, theirs).unwrap();
        let (client, _, client_end, server_end) = run(client, server);
        assert_eq!((client_end, server_end), (Ok(()), Ok(())), "{ours:?} {theirs:?}");
        let both = (ours, theirs) == (KeyExchange::Hybrid, KeyExchange::Hybrid);
        let group = if both { NamedGroup::X25519MLKEM768 } else { NamedGroup::X25519 };
        assert_eq!(client.negotiated_key_exchange_group().unwrap().name(), group, "{ours:?} {theirs:?}");
        assert_eq!(client.handshake_kind(), Some(HandshakeKind::Full), "{ours:?} {theirs:?}");
    }
}

#[test]
fn a_malformed_certificate() {
    let world = HandshakeFixture::new("alpha");
    check(&world, &world.member("a"), Some(world.authority()), RoleSet::ALL, Refusal::Malformed);
}

#[test]
fn a_stranger() {
    let (world, impostor) = (HandshakeFixture::new("alpha"), HandshakeFixture::new("alpha"));
    check(&world, &impostor.member("a"), None, RoleSet::ALL, Refusal::UnknownAuthority);
}

#[test]
fn another_groups_member() {
    let (world, beta) = (HandshakeFixture::new("alpha"), HandshakeFixture::new("beta"));
    check(&world, &beta.member("a"), None, RoleSet::ALL, Refusal::WrongGroup);
}

#[test]
fn an_expired_certificate() {
    let world = HandshakeFixture::new("alpha");
    check(&world, &world.member_at(-1), None, RoleSet::ALL, Refusal::Expired);
}

#[test]
fn a_certificate_from_the_future() {
    let world = HandshakeFixture::new("alpha");
    check(&world, &world.member_at(1), None, RoleSet::ALL, Refusal::NotYetValid);
}

#[test]
fn a_revoked_certificate() {
    let world = HandshakeFixture::new("alpha");
    check(&world, &world.revoked_member(), None, RoleSet::ALL, Refusal::Revoked);
}

#[test]
fn a_role_that_does_not_fit() {
    let world = HandshakeFixture::new("alpha");
    check(&world, &world.member("a"), None, RoleSet::only(Role::SuperNode), Refusal::WrongRole);
}

#[test]
fn no_certificate_no_handshake() {
    let world = HandshakeFixture::new("alpha");
    let good = world.member("good");
    let server = server_config(&good, &world.policy, RoleSet::ALL, KeyExchange::Hybrid).unwrap();
    let mut client = client_config(&good, &world.policy, RoleSet::ALL, KeyExchange::Hybrid).unwrap();
    Arc::make_mut(&mut client).client_auth_cert_resolver = Arc::new(Nobody);
    let (_, _, _, server_end) = run(client, server);
    assert_eq!(server_end, Err(rustls::Error::NoCertificatesPresented));
}

#[derive(Debug)]
struct Nobody;

impl rustls::client::ResolvesClientCert for Nobody {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[test]
fn repeated_handshake_rechecks_policy() {
    let world = HandshakeFixture::new("alpha");
    let bundle = world.dir.path().join("a");
    world.group.issue("a", Role::Node, Validity::default(), &bundle).unwrap();
    let client =
        client_config(&Arc::new(Identity::load(&bundle).unwrap()), &world.policy, RoleSet::ALL, KeyExchange::Hybrid)
            .unwrap();
    let server = server_config(&world.member("b"), &world.policy, RoleSet::ALL, KeyExchange::Hybrid).unwrap();
    for _ in 0..2 {
        let (client, _, _, server_end) = run(Arc::clone(&client), Arc::clone(&server));
        assert_eq!(server_end, Ok(()));
        assert_eq!(client.handshake_kind(), Some(HandshakeKind::Full));
    }
    world.group.revoke("a").unwrap();
    world.policy.reload().unwrap();
    let (_, _, client_end, server_end) = run(client, server);
    assert_eq!(refusal_from_tls_error(&server_end.unwrap_err()), Some((Side::Local, Refusal::Revoked)));
    assert_eq!(refusal_from_tls_error(&client_end.unwrap_err()), Some((Side::Remote, Refusal::Revoked)));
}
