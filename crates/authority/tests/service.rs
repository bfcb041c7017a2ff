//! The authority and its clients over loopback, and everything that goes wrong between them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use roost_authority::{Client, ClientError, Holdings, RenewError, Server, renew};
use roost_identity::group::{Forced, Group, GroupRecords, InvitationSpec, Joined};
use roost_identity::{Answer, Enrolment, Identity, KeyExchange, RenewalKey, Token, tls};
use roost_wait::eventually;
use roost_wire::{Labels, Role};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

const DAY: Duration = Duration::from_secs(24 * 3600);
const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

struct World {
    dir: tempfile::TempDir,
    group: Group,
    address: String,
}

impl World {
    async fn new() -> Self {
        Self::with_clock(SystemTime::now).await
    }

    async fn with_clock(clock: fn() -> SystemTime) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Group::init(&dir.path().join("group"), "alpha").unwrap();
        let open = || Group::open(&dir.path().join("group")).unwrap();
        let server = Server::bind_with_clock(LOOPBACK.into(), open(), clock).await.unwrap();
        let address = server.address().unwrap().to_string();
        tokio::spawn(server.serve(std::future::pending()));
        Self { group: open(), dir, address }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn invite(&self, change: impl FnOnce(&mut InvitationSpec)) -> Token {
        let [valid, certificate] = [Duration::from_secs(3600), 30 * DAY];
        let name = Some("uav7".to_owned());
        let (role, labels) = (Role::Node, Labels::default());
        let mut spec = InvitationSpec { role, name, labels, valid, uses: 1, needs_approval: false, certificate };
        change(&mut spec);
        self.group.invite(&spec, SystemTime::now()).unwrap()
    }

    fn client(&self) -> Client {
        Client::for_device(&self.address, self.group.fingerprint()).unwrap()
    }

    async fn join(&self, client: &Client, token: &Token, device: &str) -> Result<Joined, ClientError> {
        let enrolment = Enrolment::begin(&self.path(device)).unwrap();
        client.join(token, &enrolment.request(None, None).unwrap(), "host-1").await
    }

    fn finish(&self, device: &str, answer: &Answer) -> Arc<Identity> {
        let enrolment = Enrolment::begin(&self.path(device)).unwrap();
        Arc::new(enrolment.finish(answer, Some(self.group.fingerprint()), None, SystemTime::now()).unwrap())
    }

    async fn member(&self, device: &str) -> Arc<Identity> {
        let answer = issued(self.join(&self.client(), &self.invite(|_| ()), device).await);
        self.finish(device, &answer)
    }
}

fn issued(joined: Result<Joined, ClientError>) -> Box<Answer> {
    match joined {
        Ok(Joined::Issued(answer)) => answer,
        other => panic!("{other:?}"),
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, ClientError>) -> String {
    match result {
        Err(ClientError::Refused { code, error }) => {
            assert!(!error.contains('\n') && !error.is_empty(), "{error}");
            code
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn device_joins_and_renews() {
    let fixture = World::new().await;
    let first = fixture.member("device").await;
    let dir = fixture.path("device");
    let same = renew(&dir, &first, &fixture.address, RenewalKey::Same).await.unwrap();
    assert_eq!((same.node(), same.name()), (first.node(), "uav7"));
    let other = renew(&dir, &Arc::new(same), &fixture.address, RenewalKey::New).await.unwrap();
    assert_ne!(other.node(), first.node());
    assert_eq!((other.name(), other.role()), ("uav7", Role::Node));
    assert_eq!(fixture.group.show().unwrap().len(), 3);
}

#[tokio::test]
async fn decisions_are_recorded() {
    let fixture = World::new().await;
    let first = fixture.member("device").await;
    renew(&fixture.path("device"), &first, &fixture.address, RenewalKey::Same).await.unwrap();
    let guessed = "AAAAAAAAAAAAAAAAAAAAAA".parse().unwrap();
    fixture.join(&fixture.client(), &guessed, "thief").await.unwrap_err();
    let log = [fixture.group.audit_path()];
    let wanted = ["started", "certificate-issued", "certificate-renewed", "invitation-refused"];
    let kinds = || roost_audit::read(&log).unwrap().into_iter().map(|record| record.kind).collect::<Vec<_>>();
    let written = eventually(Duration::from_secs(20), || (kinds() == wanted).then_some(())).await;
    assert!(written.is_some(), "{:?}", kinds());
    let records = roost_audit::read(&log).unwrap();
    let name = |at: usize| records[at].who.as_ref().and_then(|who| who.name.as_deref());
    assert_eq!((name(1), name(2)), (Some("uav7"), Some("uav7")));
    assert_eq!(roost_audit::verify(&log, None).unwrap().faults, []);
}

#[tokio::test]
async fn refusals_have_one_sentence() {
    let fixture = World::new().await;
    let (client, token) = (fixture.client(), fixture.invite(|_| ()));
    issued(fixture.join(&client, &token, "device").await);
    assert_eq!(code(fixture.join(&client, &token, "thief").await), "used");
    let guessed = "AAAAAAAAAAAAAAAAAAAAAA".parse().unwrap();
    assert_eq!(code(fixture.join(&client, &guessed, "thief").await), "unknown-invitation");
    let late = fixture.invite(|spec| spec.valid = Duration::from_secs(1));
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert_eq!(code(fixture.join(&client, &late, "thief").await), "expired");

    let enrolment = Enrolment::begin(&fixture.path("thief")).unwrap();
    let token = fixture.invite(|_| ());
    let role = enrolment.request(None, Some(Role::SuperNode)).unwrap();
    assert_eq!(code(client.join(&token, &role, "h").await), "other-role");
    let name = enrolment.request(Some("uav8"), None).unwrap();
    assert_eq!(code(client.join(&token, &name, "h").await), "other-name");
    let open = fixture.invite(|spec| spec.name = None);
    let taken = enrolment.request(Some("uav7"), None).unwrap();
    assert_eq!(code(client.join(&open, &taken, "h").await), "name-taken");
    assert_eq!(code(client.join(&open, b"nonsense", "h").await), "bad-request");
    assert_eq!(code(client.renew(&name).await), "no-certificate");
    assert_eq!(code(client.documents(Holdings::default()).await), "no-certificate");
    assert_eq!(code(client.wait("0").await), "unknown-ticket");
    assert_eq!(fixture.group.show().unwrap().len(), 1);
}

#[tokio::test]
async fn approval_reaches_the_waiting_device() {
    let fixture = World::new().await;
    let (client, token) = (fixture.client(), fixture.invite(|spec| spec.needs_approval = true));
    let ticket = match fixture.join(&client, &token, "device").await.unwrap() {
        Joined::Waiting { ticket } => ticket,
        other => panic!("{other:?}"),
    };
    let approved = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        fixture.group.approve("uav7", SystemTime::now()).unwrap();
    };
    let (answer, ()) = tokio::join!(client.wait(&ticket), approved);
    assert_eq!(fixture.finish("device", &answer.unwrap().unwrap()).name(), "uav7");

    let token = fixture.invite(|spec| {
        spec.needs_approval = true;
        spec.name = Some("uav8".into());
    });
    let Joined::Waiting { ticket } = fixture.join(&client, &token, "other").await.unwrap() else { panic!("no ticket") };
    fixture.group.deny("uav8", SystemTime::now()).unwrap();
    assert_eq!(code(client.wait(&ticket).await), "denied");
}

#[tokio::test]
async fn revoked_member_gets_nothing() {
    let fixture = World::new().await;
    let member = fixture.member("device").await;
    let client = Client::for_member(&fixture.address, &member).unwrap();
    let waiting =
        tokio::spawn(async move { client.documents(Holdings { revocations: 1, ..Holdings::default() }).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    fixture.group.revoke("uav7").unwrap();
    let documents = waiting.await.unwrap().unwrap();
    assert_eq!((documents.len(), documents[0].number), (1, 2));
    let refused = renew(&fixture.path("device"), &member, &fixture.address, RenewalKey::Same).await.unwrap_err();
    let sentence = refused.to_string();
    assert!(matches!(refused, RenewError::Client(ClientError::Certificate { .. })), "{sentence}");
    assert!(sentence.contains("it was revoked"), "{sentence}");
}

#[tokio::test]
async fn other_authority_is_noticed() {
    let (ours, other) = (World::new().await, World::new().await);
    let token = ours.invite(|_| ());
    let client = Client::for_device(&other.address, ours.group.fingerprint()).unwrap();
    let error = ours.join(&client, &token, "device").await.unwrap_err();
    assert!(matches!(error, ClientError::OtherAuthority(_)), "{error}");
    let client = Client::for_device(&ours.address, ours.group.fingerprint()).unwrap();
    assert_eq!(code(ours.join(&client, &other.invite(|_| ()), "device").await), "unknown-invitation");
    issued(ours.join(&client, &token, "device").await);
}

/// A member has a certificate of the group's authority, too.
#[tokio::test]
async fn member_cannot_pose_as_authority() {
    let fixture = World::new().await;
    let member = fixture.member("device").await;
    let authority = std::fs::read(fixture.path("device/group.pem")).unwrap();
    let authority = tokio_rustls::rustls::pki_types::pem::PemObject::from_pem_slice(&authority).unwrap();
    let chain: Vec<CertificateDer<'static>> = vec![member.certificate_der().to_vec().into(), authority];
    let key = PrivatePkcs8KeyDer::from(member.key_pkcs8_der().to_vec());
    let config = ServerConfig::builder_with_provider(tls::provider(KeyExchange::Hybrid))
        .with_protocol_versions(&[&tokio_rustls::rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key.into())
        .unwrap();
    let listener = TcpListener::bind(SocketAddr::from(LOOPBACK)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        drop(TlsAcceptor::from(Arc::new(config)).accept(stream).await);
    });
    let client = Client::for_device(&address, fixture.group.fingerprint()).unwrap();
    let error = fixture.join(&client, &fixture.invite(|_| ()), "other").await.unwrap_err();
    assert!(matches!(error, ClientError::OtherAuthority(_)), "{error}");
}

#[tokio::test]
async fn clocks_a_day_apart_are_named() {
    let behind = World::with_clock(|| SystemTime::now() - DAY).await;
    let error = behind.join(&behind.client(), &behind.invite(|_| ()), "device").await.unwrap_err();
    assert!(matches!(error, ClientError::Ended(_)), "{error}");
    let ahead = World::with_clock(|| SystemTime::now() + DAY).await;
    let error = ahead.join(&ahead.client(), &ahead.invite(|_| ()), "device").await.unwrap_err();
    assert!(matches!(error, ClientError::NotBegun(_)), "{error}");
    assert!(error.to_string().contains("set the clock"), "{error}");
    assert_eq!(ahead.group.show().unwrap(), []);
}

/// Passes everything on, but to the first connection nothing once the authority has decided.
async fn proxy_that_loses_an_answer(server: String, has_decided: impl Fn() -> bool + Send + 'static) -> String {
    let listener = TcpListener::bind(SocketAddr::from(LOOPBACK)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut up = TcpStream::connect(&server).await.unwrap();
        let (mut question, mut answer) = ([0; 4096], [0; 4096]);
        loop {
            tokio::select! {
                read = client.read(&mut question) => up.write_all(&question[..read.unwrap()]).await.unwrap(),
                read = up.read(&mut answer) => {
                    if has_decided() {
                        break;
                    }
                    client.write_all(&answer[..read.unwrap()]).await.unwrap();
                }
            }
        }
        drop((client, up));
        while let Ok((mut client, _)) = listener.accept().await {
            let mut up = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(async move { drop(tokio::io::copy_bidirectional(&mut client, &mut up).await) });
        }
    });
    address
}

#[tokio::test]
async fn lost_answer_costs_no_second_use() {
    let fixture = World::new().await;
    let token = fixture.invite(|_| ());
    let records = GroupRecords::open(&fixture.path("group")).unwrap();
    let has_decided = move || records.show().unwrap().len() == 1;
    let proxy = proxy_that_loses_an_answer(fixture.address.clone(), has_decided).await;
    let client = Client::for_device(&proxy, fixture.group.fingerprint()).unwrap();
    let lost = fixture.join(&client, &token, "device").await.unwrap_err();
    assert!(lost.is_temporary(), "{lost}");
    assert_eq!(fixture.group.show().unwrap().len(), 1, "the authority had issued it");
    let answer = issued(fixture.join(&client, &token, "device").await);
    fixture.finish("device", &answer);
    assert_eq!(GroupRecords::open(&fixture.path("group")).unwrap().show().unwrap().len(), 1);
}

#[tokio::test]
async fn unreachable_authority_is_temporary() {
    let fixture = World::new().await;
    let port = TcpListener::bind(SocketAddr::from(LOOPBACK)).await.unwrap().local_addr().unwrap().to_string();
    let client = Client::for_device(&port, fixture.group.fingerprint()).unwrap();
    let error = fixture.join(&client, &fixture.invite(|_| ()), "device").await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("cannot be reached"), "{error}");
}

#[tokio::test]
async fn long_bodies_are_refused() {
    let fixture = World::new().await;
    let (client, token) = (fixture.client(), fixture.invite(|_| ()));
    assert_eq!(code(client.join(&token, &[0; 20_000], "h").await), "too-large");
    assert_eq!(code(client.wait("../../renew").await), "not-found");
}

#[tokio::test]
async fn silent_stranger_is_dropped() {
    let world = World::new().await;
    let mut stranger = TcpStream::connect(&world.address).await.unwrap();
    let began = tokio::time::Instant::now();
    let read = tokio::time::timeout(Duration::from_secs(20), stranger.read(&mut [0; 16])).await;
    assert!(matches!(read, Ok(Ok(0) | Err(_))), "{read:?}");
    assert!(began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
}

/// The authority changes while its service and a member run. The member has not heard of it when it asks.
#[tokio::test]
async fn member_learns_of_the_next_authority() {
    let fixture = World::new().await;
    let member = fixture.member("device").await;
    let client = Client::for_member(&fixture.address, &member).unwrap();
    let held = Holdings { revocations: 1, ..Holdings::default() };
    let waiting = tokio::spawn(async move { client.documents(held).await });
    let old = fixture.group.fingerprint();
    let rollover = fixture.group.start_rollover(SystemTime::now()).unwrap();
    let documents = waiting.await.unwrap().unwrap();
    assert_eq!((documents.len(), documents[0].kind.as_str(), documents[0].number), (1, "trust", 1));

    let early = Client::for_device(&fixture.address, old).unwrap();
    let token = fixture.invite(|spec| spec.name = Some("late".into()));
    let answer = issued(fixture.join(&early, &token, "late").await);
    let enrolment = Enrolment::begin(&fixture.path("late")).unwrap();
    let late = enrolment.finish(&answer, Some(old), None, SystemTime::now()).unwrap();
    assert_eq!(late.authority_fingerprint(), rollover.in_force);

    let renewed = renew(&fixture.path("device"), &member, &fixture.address, RenewalKey::Same).await.unwrap();
    assert_eq!((renewed.node(), renewed.authority_fingerprint()), (member.node(), rollover.in_force));
    assert!(fixture.group.rollover(SystemTime::now()).unwrap().behind.is_empty());
    fixture.group.finish_rollover(Forced::No, SystemTime::now()).unwrap();
    let error = renew(&fixture.path("device"), &member, &fixture.address, RenewalKey::Same).await.unwrap_err();
    assert!(error.to_string().contains("is not this group's authority"), "{error}");
    renew(&fixture.path("device"), &Arc::new(renewed), &fixture.address, RenewalKey::Same).await.unwrap();
}

#[tokio::test]
async fn one_authority_serves_a_group() {
    let fixture = World::new().await;
    let open = || Group::open(&fixture.path("group")).unwrap();
    let error = Server::bind(LOOPBACK.into(), open()).await.err().expect("it serves beside the first one").to_string();
    assert!(error.contains("another authority serves the group in"), "{error}");
}

/// A caller that sends a request every 15 seconds.
#[tokio::test]
async fn connection_ends_in_two_minutes() {
    const REQUEST: &[u8] = b"GET /nothing HTTP/1.1\r\nhost: a\r\n\r\n";
    let fixture = World::new().await;
    let stream = TcpStream::connect(&fixture.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(tls::authority_client(fixture.group.fingerprint(), None).unwrap());
    let name = tls::service_name(fixture.group.fingerprint()).unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    let mut answer = [0; 4096];
    for _ in 0..8 {
        stream.write_all(REQUEST).await.unwrap();
        assert!(stream.read(&mut answer).await.unwrap() > 0);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(15)).await;
        tokio::time::resume();
    }
    let _ = stream.write_all(REQUEST).await;
    let rest = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut Vec::new())).await;
    assert!(rest.is_ok(), "the connection is still up");
}
