//! Decides about each request: gets the time, the sender and the body, and gives the reply. It works on the group's
//! folder, so it blocks; it has no sockets and no clock.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use data_encoding::BASE64;
use roost_audit::{AuditEvent, AuditKind, AuditRecorder};
use roost_identity::group::{Group, GroupError, JoinRefusal, Joined, Origin, Ticket};
use roost_identity::{Answer, Document, Policy, SigningRequest, Token, read_unverified};
use roost_wire::RemoteIdentity;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tracing::{info, warn};

use crate::allowances::{Allowances, network};
use crate::messages::{Holdings, JoinBody, RenewBody};

/// Longest name of a host that is kept, bytes: that of Linux.
const MAX_HOST_BYTES: usize = 64;

/// Wrong tokens of a network: ten at once, one more each half minute.
const WRONG_TOKENS: (u32, Duration) = (10, Duration::from_secs(30));
/// Wrong tokens of all: a hundred at once, one more each second. Beyond that only networks that have sent none may try.
const ALL_WRONG_TOKENS: (u32, Duration) = (100, Duration::from_secs(1));
/// Renewals of a member: ten at once, one more each ten minutes, so that no member fills the group's index.
const RENEWALS: (u32, Duration) = (10, Duration::from_secs(600));
const MAX_SENDERS: usize = 4096;

/// The status of a refusal for the number of requests (RFC 6585).
const TOO_MANY: u16 = 429;

/// The time, by the calendar and by a clock that nobody sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) calendar: SystemTime,
    pub(crate) steady: Instant,
}

/// A request is refused, with one sentence for people and a word for programs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) error: String,
}

pub(crate) struct Desk {
    group: Arc<Group>,
    policy: Arc<Policy>,
    audit: AuditRecorder,
    state: Mutex<State>,
}

struct State {
    wrong_tokens: Allowances<IpAddr>,
    all_wrong_tokens: Allowances<()>,
    /// By the name in the certificate, which a renewal for another key keeps.
    renewals: Allowances<String>,
    /// The times at which the documents that are in force were written, and the number of the policy.
    documents_written: Option<[Option<SystemTime>; 3]>,
    policy_number: u64,
}

impl Desk {
    pub(crate) fn new(group: Arc<Group>, policy: Arc<Policy>, audit: AuditRecorder) -> Self {
        let state = State {
            wrong_tokens: Allowances::new(WRONG_TOKENS.0, WRONG_TOKENS.1, MAX_SENDERS),
            all_wrong_tokens: Allowances::new(ALL_WRONG_TOKENS.0, ALL_WRONG_TOKENS.1, 1),
            renewals: Allowances::new(RENEWALS.0, RENEWALS.1, MAX_SENDERS),
            documents_written: None,
            policy_number: 0,
        };
        Self { group, policy, audit, state: Mutex::new(state) }
    }

    pub(crate) fn join(&self, from: IpAddr, body: &JoinBody, now: Now) -> Result<Joined, Refused> {
        let network = network(from);
        let token = self.check_token(&body.token, network, now).inspect_err(|error| {
            warn!(%from, error = error.error, "a device was refused");
            // Of a network that sends too many there is a record already: it must not fill the files.
            if error.status != TOO_MANY {
                self.audit.record(refusal(from, &error.error));
            }
        })?;
        let request = parse_request(&body.request)?;
        let host: String = body.host.chars().filter(|c| c.is_ascii_graphic()).take(MAX_HOST_BYTES).collect();
        let origin = Origin { host, address: network.to_string() };
        let joined = self.group.join(&token, &request, &origin, now.calendar);
        let event = |kind| AuditEvent::new(kind).with("address", from.to_string()).with("invitation", token.id());
        match &joined {
            Ok(Joined::Issued(answer)) => {
                info!(node = %request.node(), %from, "a device has joined");
                let name = holder(answer).map(|holder| holder.name);
                self.audit.record(event(AuditKind::CertificateIssued).about(request.node(), name.as_deref()));
            }
            Ok(Joined::Waiting { .. }) => {
                info!(node = %request.node(), %from, "a device waits for approval");
                self.audit.record(event(AuditKind::JoinAsked).about(request.node(), None));
            }
            Err(error) => {
                warn!(node = %request.node(), %from, %error, "a device was refused");
                let refused = event(AuditKind::InvitationRefused).about(request.node(), None);
                self.audit.record(refused.with("reason", error.to_string()));
            }
        }
        joined.map_err(|error| from_group(&error))
    }

    /// Only wrong tokens count, as an invited device may share its address with one that guesses.
    fn check_token(&self, text: &str, network: IpAddr, now: Now) -> Result<Token, Refused> {
        if let Ok(token) = text.parse::<Token>()
            && self.group.is_invited(&token, now.calendar).map_err(|error| from_group(&error))?
        {
            return Ok(token);
        }
        if self.state().charge_wrong_token(network, now.steady) {
            Err(from_group(&JoinRefusal::UnknownToken.into()))
        } else {
            let error = "too many wrong invitations came from this network: try again in a minute";
            Err(refused(TOO_MANY, "busy", error))
        }
    }

    /// The answer to a request that waited; `None` while it waits.
    pub(crate) fn ticket(&self, ticket: &str, now: Now) -> Result<Option<Box<Answer>>, Refused> {
        match self.group.ticket(ticket, now.calendar).map_err(|error| from_group(&error))? {
            Some(Ticket::Waiting) => Ok(None),
            Some(Ticket::Approved(answer)) => Ok(Some(answer)),
            Some(Ticket::Denied) => Err(from_group(&JoinRefusal::Denied.into())),
            None => {
                Err(refused(404, "unknown-ticket", "the authority does not know this request any more: join again"))
            }
        }
    }

    /// A member renews its certificate, whose key it holds.
    pub(crate) fn renew(&self, member: Option<&[u8]>, body: &RenewBody, now: Now) -> Result<Box<Answer>, Refused> {
        let (certificate, member) = identify(member)?;
        let request = parse_request(&body.request)?;
        if !self.state().renewals.charge_if_left(&member.name, now.steady) {
            return Err(refused(
                TOO_MANY,
                "busy",
                "this member has renewed its certificate too often: try again in ten minutes",
            ));
        }
        let renewed = self.group.renew_member(certificate, &request, now.calendar);
        let (issued, answer) = renewed.map_err(|error| {
            warn!(node = %member.node, %error, "a renewal was refused");
            let refused = AuditEvent::new(AuditKind::RenewalRefused).about(member.node, Some(&member.name));
            self.audit.record(refused.with("reason", error.to_string()));
            from_group(&error)
        })?;
        info!(name = issued.name, node = %issued.node, "a certificate was renewed");
        let renewed = AuditEvent::new(AuditKind::CertificateRenewed).about(issued.node, Some(&issued.name));
        let renewed = renewed.with("former_id", member.node.to_string()).with("labels", issued.labels.to_string());
        self.audit.record(renewed.with("serial", issued.serial));
        Ok(Box::new(answer))
    }

    /// The documents that are newer than those that a member holds; `None` if there are none.
    pub(crate) fn documents(&self, member: Option<&[u8]>, held: Holdings) -> Result<Option<Vec<Document>>, Refused> {
        identify(member)?;
        self.reload_documents();
        let (list, trust) = (self.policy.revocations().0, self.policy.signed_trust().number);
        if list <= held.revocations && trust <= held.trust && self.state().policy_number <= held.policy {
            return Ok(None);
        }
        let mut documents = self.group.documents().map_err(|error| from_group(&error))?;
        documents.retain(|document| document.number > held.number(&document.kind));
        Ok((!documents.is_empty()).then_some(documents))
    }

    /// Puts documents in force that the operator's commands have written meanwhile.
    pub(crate) fn reload_documents(&self) {
        let written = Some(self.group.documents_written());
        let mut state = self.state();
        if written == state.documents_written {
            return;
        }
        let reloaded = self.group.refresh().and_then(|()| Ok(self.policy.reload()?));
        if let Err(error) = reloaded {
            return warn!(%error, "the group's documents stay as they were");
        }
        state.documents_written = written;
        match self.group.policy_number() {
            Ok(number) => state.policy_number = number,
            Err(error) => warn!(%error, "no policy is given to members: publish it again"),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn may_try(&self, network: IpAddr, now: Instant) -> bool {
        let is_unsuspicious = self.wrong_tokens.is_whole(&network, now);
        is_unsuspicious || self.wrong_tokens.is_left(&network, now) && self.all_wrong_tokens.is_left(&(), now)
    }

    /// Counts a wrong token. False if the network had none left.
    fn charge_wrong_token(&mut self, network: IpAddr, now: Instant) -> bool {
        if !self.may_try(network, now) {
            return false;
        }
        self.wrong_tokens.charge(&network, now);
        if self.all_wrong_tokens.is_left(&(), now) {
            self.all_wrong_tokens.charge(&(), now);
        }
        true
    }
}

/// The certificate of a member, which the handshake has verified, and its holder.
fn identify(member: Option<&[u8]>) -> Result<(&[u8], RemoteIdentity), Refused> {
    let strange = || refused(401, "no-certificate", "only members of the group may ask this: show a certificate");
    let member = member.ok_or_else(strange)?;
    Ok((member, read_unverified(member).map_err(|_| strange())?))
}

fn holder(answer: &Answer) -> Option<RemoteIdentity> {
    let der = CertificateDer::from_pem_slice(answer.certificate.as_bytes()).ok()?;
    read_unverified(&der).ok()
}

fn refusal(from: IpAddr, reason: &str) -> AuditEvent {
    AuditEvent::new(AuditKind::InvitationRefused).with("address", from.to_string()).with("reason", reason)
}

fn parse_request(text: &str) -> Result<SigningRequest, Refused> {
    let der = BASE64.decode(text.as_bytes()).unwrap_or_default();
    SigningRequest::parse(&der).map_err(|error| refused(400, "bad-request", &error.to_string()))
}

pub(crate) fn refused(status: u16, code: &'static str, error: &str) -> Refused {
    Refused { status, code, error: error.to_owned() }
}

fn from_group(error: &GroupError) -> Refused {
    match error {
        GroupError::Join(refusal @ JoinRefusal::TooManyWaiting) => refused(503, refusal.code(), &refusal.to_string()),
        GroupError::Join(refusal) => refused(403, refusal.code(), &refusal.to_string()),
        GroupError::NotRenewable { refusal, .. } => {
            refused(403, refusal.label(), &format!("the authority does not renew the certificate: {refusal}"))
        }
        internal => {
            warn!(error = %internal, "the group's folder cannot be used");
            refused(500, "internal", "the authority cannot use its folder: its operator sees why in its log")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roost_identity::Enrolment;
    use roost_identity::group::InvitationSpec;
    use roost_wire::{Labels, Role};

    const SECOND: Duration = Duration::from_secs(1);

    struct Fixture {
        dir: tempfile::TempDir,
        desk: Desk,
        now: Now,
    }

    impl Fixture {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let group = Arc::new(Group::init(&dir.path().join("group"), "alpha").unwrap());
            let policy = group.policy().unwrap();
            let now = Now { calendar: SystemTime::now(), steady: Instant::now() };
            Self { dir, desk: Desk::new(group, policy, AuditRecorder::default()), now }
        }

        fn request(&self) -> String {
            let enrolment = Enrolment::begin(&self.dir.path().join("device")).unwrap();
            BASE64.encode(&enrolment.request(Some("uav7"), None).unwrap())
        }

        fn join(&self, from: &str, token: &str) -> Result<Joined, Refused> {
            let body = JoinBody { token: token.to_owned(), request: self.request(), host: "h".into() };
            self.desk.join(from.parse().unwrap(), &body, self.now)
        }

        fn invite(&self) -> String {
            let [valid, certificate] = [SECOND * 3600; 2];
            let (role, labels) = (Role::Node, Labels::default());
            let spec = InvitationSpec { role, name: None, labels, valid, uses: 9, needs_approval: false, certificate };
            self.desk.group.invite(&spec, self.now.calendar).unwrap().to_string()
        }
    }

    fn code<T: std::fmt::Debug>(result: Result<T, Refused>) -> &'static str {
        result.unwrap_err().code
    }

    #[test]
    fn guessed_tokens_are_rate_limited() {
        let mut fixture = Fixture::new();
        let (good, wrong) = (fixture.invite(), "AAAAAAAAAAAAAAAAAAAAAA");
        for guess in ["", wrong, "no token at all"].iter().cycle().take(10) {
            assert_eq!(code(fixture.join("10.0.0.1", guess)), "unknown-invitation");
        }
        assert_eq!(code(fixture.join("10.0.0.1", wrong)), "busy");
        assert!(fixture.join("10.0.0.1", &good).is_ok(), "an invited device shares the guesser's address");
        assert_eq!(code(fixture.join("10.0.0.2", wrong)), "unknown-invitation");
        fixture.now.steady += SECOND * 30;
        assert_eq!(code(fixture.join("10.0.0.1", wrong)), "unknown-invitation");
        assert_eq!(code(fixture.join("10.0.0.1", wrong)), "busy");
    }

    #[test]
    fn crowd_of_guessers_spares_others() {
        let fixture = Fixture::new();
        let good = fixture.invite();
        for host in 0..100 {
            assert_eq!(code(fixture.join(&format!("10.0.1.{host}"), "wrong")), "unknown-invitation");
        }
        assert_eq!(code(fixture.join("10.0.1.1", "wrong")), "busy");
        assert!(fixture.join("10.0.0.9", &good).is_ok());
    }

    #[test]
    fn bad_requests_are_refused() {
        let fixture = Fixture::new();
        let body = JoinBody { token: fixture.invite(), request: "bm9uc2Vuc2U=".into(), host: String::new() };
        assert_eq!(code(fixture.desk.join("10.0.0.1".parse().unwrap(), &body, fixture.now)), "bad-request");
        let body = RenewBody { request: fixture.request() };
        assert_eq!(code(fixture.desk.renew(None, &body, fixture.now)), "no-certificate");
        assert_eq!(code(fixture.desk.documents(None, Holdings::default())), "no-certificate");
        assert_eq!(code(fixture.desk.ticket("0", fixture.now)), "unknown-ticket");
    }

    #[test]
    fn member_renews_so_often_only() {
        let fixture = Fixture::new();
        let mut member = fixture.desk.group.issue_in_memory("uav7", Role::Node).unwrap().certificate_der().to_vec();
        for _ in 0..10 {
            let body = RenewBody { request: fixture.request() };
            let answer = fixture.desk.renew(Some(&member), &body, fixture.now).unwrap();
            member = CertificateDer::from_pem_slice(answer.certificate.as_bytes()).unwrap().to_vec();
            std::fs::remove_dir_all(fixture.dir.path().join("device.joining")).unwrap();
        }
        let body = RenewBody { request: fixture.request() };
        assert_eq!(code(fixture.desk.renew(Some(&member), &body, fixture.now)), "busy");
    }

    #[test]
    fn newer_list_is_given_and_counts() {
        let fixture = Fixture::new();
        let group = &fixture.desk.group;
        group.issue("lost", Role::Node, Default::default(), &fixture.dir.path().join("lost")).unwrap();
        let member = group.issue_in_memory("uav7", Role::Node).unwrap().certificate_der();
        let held = Holdings { revocations: 1, ..Holdings::default() };
        assert_eq!(fixture.desk.documents(Some(&member), held).unwrap(), None);
        group.revoke("lost").unwrap();
        let documents = fixture.desk.documents(Some(&member), held).unwrap().unwrap();
        assert_eq!((documents[0].kind.as_str(), documents[0].number), ("revocations", 2));
    }

    #[test]
    fn newer_policy_is_given_alone() {
        let fixture = Fixture::new();
        let group = &fixture.desk.group;
        let member = group.issue_in_memory("uav7", Role::Node).unwrap().certificate_der();
        group.sign_policy("[[rule]]\nallow = [\"all\"]").unwrap();
        let ask = |policy| {
            fixture.desk.documents(Some(&member), Holdings { revocations: 1, policy, ..Holdings::default() }).unwrap()
        };
        let documents = ask(0).unwrap();
        assert_eq!((documents.len(), documents[0].kind.as_str(), documents[0].number), (1, "policy", 1));
        assert_eq!(ask(1), None);
    }
}
