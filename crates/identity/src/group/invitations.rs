//! Invitations to a group, and the requests that wait for approval. All decisions are here, without clock and disk.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use data_encoding::BASE64;
use roost_wire::{Labels, NodeId, Role};
use serde::{Deserialize, Serialize};

use super::stored::{self, seconds, time};
use super::{Issued, JoinRefusal};
use crate::certificate::node_id;
use crate::fingerprint::Fingerprint;
use crate::invitation_address::{Token, TokenDigest};
use crate::request::SigningRequest;
use crate::subject::check_name;

/// Most invitations that a group keeps, and most uses of each.
pub(super) const MAX_INVITATIONS: usize = 256;
pub(super) const MAX_USES: u32 = 256;

pub(super) const MAX_WAITING: usize = 256;

/// Time for which an ended invitation, or a request, is remembered, so that its device learns the reason.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);

pub(super) const MAX_VALIDITY: Duration = Duration::from_secs(30 * 24 * 3600);

/// A permission to join, as the operator gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationSpec {
    pub role: Role,
    /// The only name that the device may have; `None` leaves it to the device.
    pub name: Option<String>,
    pub labels: Labels,
    pub valid: Duration,
    pub uses: u32,
    pub needs_approval: bool,
    /// Time for which the certificate is valid.
    pub certificate: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The name that the device's host gives itself. Nothing proves it.
    pub host: String,
    /// The network address without the port, which no proof but the TCP handshake backs.
    pub address: String,
}

/// An invitation as the operator's list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownInvitation {
    pub id: String,
    pub role: Role,
    pub name: Option<String>,
    pub labels: Labels,
    pub valid_until: SystemTime,
    pub uses_left: u32,
    pub needs_approval: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingRequest {
    /// The id that the device gets as a member.
    pub node: NodeId,
    pub name: String,
    pub role: Role,
    pub labels: Labels,
    pub origin: Origin,
    pub asked: SystemTime,
    pub fingerprint: Fingerprint,
}

pub(super) struct Attempt<'a> {
    pub(super) token: &'a Token,
    pub(super) request: &'a SigningRequest,
    pub(super) origin: &'a Origin,
    /// The ticket for it, if it has to wait.
    pub(super) ticket: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Issue {
        name: String,
        role: Role,
        labels: Labels,
        valid: Duration,
    },
    /// The device has a certificate already and has lost the answer.
    Again {
        certificate: String,
    },
    Wait {
        ticket: String,
    },
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Invitations {
    invitations: Vec<Invitation>,
    requests: Vec<Request>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Invitation {
    token: TokenDigest,
    #[serde(with = "stored::role")]
    role: Role,
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    labels: Labels,
    /// Seconds of the Unix epoch, as all times here.
    valid_until: u64,
    uses_left: u32,
    needs_approval: bool,
    certificate_seconds: u64,
    uses: Vec<Use>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Use {
    key: String,
    certificate: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) ticket: String,
    token: TokenDigest,
    key: String,
    pub(super) name: String,
    #[serde(with = "stored::role")]
    pub(super) role: Role,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub(super) labels: Labels,
    /// True if the operator chose the name, which another member may have had before.
    is_name_given: bool,
    host: String,
    address: String,
    asked: u64,
    certificate_seconds: u64,
    pub(super) approval: Approval,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Approval {
    Waiting,
    Approved { certificate: String },
    Denied,
}

impl Invitations {
    pub(super) fn forget_old(&mut self, now: SystemTime) {
        let now = seconds(now);
        self.requests.retain(|request| now <= request.asked + REMEMBERED.as_secs());
        self.invitations.retain(|invitation| invitation.is_remembered(now));
        self.invitations.iter_mut().filter(|one| now > one.valid_until).for_each(|one| one.uses.clear());
    }

    /// Adds an invitation, unless there are too many.
    pub(super) fn add(&mut self, token: &Token, spec: &InvitationSpec, now: SystemTime) -> Option<()> {
        if self.invitations.len() >= MAX_INVITATIONS {
            return None;
        }
        self.invitations.push(Invitation {
            token: token.digest(),
            role: spec.role,
            name: spec.name.clone(),
            labels: spec.labels.clone(),
            valid_until: seconds(now + spec.valid),
            uses_left: spec.uses,
            needs_approval: spec.needs_approval,
            certificate_seconds: spec.certificate.as_secs(),
            uses: Vec::new(),
        });
        Some(())
    }

    /// True if there is an invitation with this token, which may have ended lately.
    pub(super) fn knows(&self, token: &Token, now: SystemTime) -> bool {
        let digest = token.digest();
        self.invitations.iter().any(|one| one.token.matches(&digest) && one.is_remembered(seconds(now)))
    }

    /// Ends the invitation with this id. False if there is none.
    pub(super) fn withdraw(&mut self, id: &str) -> bool {
        let before = self.invitations.len();
        self.invitations.retain(|invitation| invitation.token.short() != id);
        self.invitations.len() < before
    }

    pub(super) fn shown(&self, now: SystemTime) -> Vec<ShownInvitation> {
        let open = |invitation: &&Invitation| invitation.uses_left > 0 && seconds(now) <= invitation.valid_until;
        let show = |invitation: &Invitation| ShownInvitation {
            id: invitation.token.short().to_owned(),
            role: invitation.role,
            name: invitation.name.clone(),
            labels: invitation.labels.clone(),
            valid_until: time(invitation.valid_until),
            uses_left: invitation.uses_left,
            needs_approval: invitation.needs_approval,
        };
        self.invitations.iter().filter(open).map(show).collect()
    }

    /// Decides about a device that wants to join, among the certificates `issued` so far.
    pub(super) fn decide(
        &mut self,
        attempt: Attempt<'_>,
        issued: &[Issued],
        now: SystemTime,
    ) -> Result<Decision, JoinRefusal> {
        let digest = attempt.token.digest();
        let known = self.invitations.iter().position(|invitation| invitation.token.matches(&digest));
        let at = known.ok_or(JoinRefusal::UnknownToken)?;
        check_key(attempt.request.node(), issued)?;
        if let Some(earlier) = self.earlier(at, attempt.request) {
            return earlier;
        }
        let invitation = &self.invitations[at];
        if seconds(now) > invitation.valid_until {
            return Err(JoinRefusal::Expired);
        } else if invitation.uses_left == 0 {
            return Err(JoinRefusal::UsedUp);
        }
        let (role, valid) = (invitation.role, Duration::from_secs(invitation.certificate_seconds));
        if let Some(requested) = attempt.request.role.filter(|requested| *requested != role) {
            return Err(JoinRefusal::OtherRole { invited: role, requested });
        }
        let name = invitation.choose_name(attempt.request, attempt.origin)?;
        if invitation.name.is_none() {
            check_vacant(&name, attempt.request.node(), issued, now)?;
        }
        if !invitation.needs_approval {
            return Ok(Decision::Issue { name, role, labels: self.invitations[at].labels.clone(), valid });
        }
        self.make_room(&attempt.origin.address)?;
        let ticket = attempt.ticket.clone();
        self.enqueue(at, attempt, name, now);
        Ok(Decision::Wait { ticket })
    }

    /// The answer to a device that has asked before with the same key.
    fn earlier(&self, at: usize, request: &SigningRequest) -> Option<Result<Decision, JoinRefusal>> {
        let (invitation, key) = (&self.invitations[at], BASE64.encode(request.key()));
        if let Some(earlier) = invitation.uses.iter().find(|earlier| earlier.key == key) {
            return Some(Ok(Decision::Again { certificate: earlier.certificate.clone() }));
        }
        let mut same = self.requests.iter().filter(|one| one.token.matches(&invitation.token) && one.key == key);
        same.next().map(|request| match &request.approval {
            Approval::Waiting => Ok(Decision::Wait { ticket: request.ticket.clone() }),
            Approval::Approved { certificate } => Ok(Decision::Again { certificate: certificate.clone() }),
            Approval::Denied => Err(JoinRefusal::Denied),
        })
    }

    /// Notes that the device with this token has its certificate.
    pub(super) fn use_up(&mut self, token: &Token, request: &SigningRequest, certificate: &str) {
        let digest = token.digest();
        if let Some(invitation) = self.invitations.iter_mut().find(|one| one.token.matches(&digest)) {
            invitation.uses_left = invitation.uses_left.saturating_sub(1);
            let key = BASE64.encode(request.key());
            invitation.uses.push(Use { key, certificate: certificate.to_owned() });
        }
    }

    fn enqueue(&mut self, at: usize, attempt: Attempt<'_>, name: String, now: SystemTime) {
        let invitation = &mut self.invitations[at];
        invitation.uses_left = invitation.uses_left.saturating_sub(1);
        self.requests.push(Request {
            ticket: attempt.ticket,
            token: invitation.token.clone(),
            key: BASE64.encode(attempt.request.key()),
            name,
            role: invitation.role,
            labels: invitation.labels.clone(),
            is_name_given: invitation.name.is_some(),
            host: attempt.origin.host.clone(),
            address: attempt.origin.address.clone(),
            asked: seconds(now),
            certificate_seconds: invitation.certificate_seconds,
            approval: Approval::Waiting,
        });
    }

    /// Makes room for a request from `address`: the address with most requests loses its oldest, and its use of the
    /// invitation comes back.
    fn make_room(&mut self, address: &str) -> Result<(), JoinRefusal> {
        let waiting = || self.requests.iter().filter(|request| request.approval == Approval::Waiting);
        if waiting().count() < MAX_WAITING {
            return Ok(());
        }
        let mut counts = BTreeMap::<&str, usize>::new();
        waiting().for_each(|request| *counts.entry(&request.address).or_default() += 1);
        let (greediest, most) = counts.into_iter().max_by_key(|(_, count)| *count).unwrap_or_default();
        let own = waiting().filter(|request| request.address == address).count();
        if own + 1 >= most {
            return Err(JoinRefusal::TooManyWaiting);
        }
        let oldest = self.requests.iter().position(|one| one.approval == Approval::Waiting && one.address == greediest);
        let lost = self.requests.remove(oldest.ok_or(JoinRefusal::TooManyWaiting)?);
        if let Some(invitation) = self.invitations.iter_mut().find(|one| one.token.matches(&lost.token)) {
            invitation.uses_left += 1;
        }
        Ok(())
    }

    /// The requests that wait, the oldest first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| request.approval == Approval::Waiting)
    }

    pub(super) fn by_ticket(&self, ticket: &str) -> Option<&Request> {
        self.requests.iter().find(|request| request.ticket == ticket)
    }

    pub(super) fn by_ticket_mut(&mut self, ticket: &str) -> Option<&mut Request> {
        self.requests.iter_mut().find(|request| request.ticket == ticket)
    }
}

impl Invitation {
    fn is_remembered(&self, now: u64) -> bool {
        now <= self.valid_until + REMEMBERED.as_secs()
    }

    /// The name of the member: the invitation's, else the request's, else the host's.
    fn choose_name(&self, request: &SigningRequest, origin: &Origin) -> Result<String, JoinRefusal> {
        match (&self.name, &request.name) {
            (Some(invited), Some(requested)) if invited != requested => {
                Err(JoinRefusal::OtherName { invited: invited.clone(), requested: requested.clone() })
            }
            (Some(name), _) | (None, Some(name)) => Ok(name.clone()),
            (None, None) if check_name(&origin.host).is_ok() => Ok(origin.host.clone()),
            (None, None) => Err(JoinRefusal::NoName),
        }
    }
}

impl Request {
    pub(super) fn key(&self) -> Option<Vec<u8>> {
        BASE64.decode(self.key.as_bytes()).ok()
    }

    pub(super) fn valid(&self) -> Duration {
        Duration::from_secs(self.certificate_seconds)
    }

    /// Checks that nobody has taken the name that the device chose, nor was its key revoked while it waited.
    pub(super) fn check(&self, issued: &[Issued], now: SystemTime) -> Result<(), JoinRefusal> {
        let node = node_id(&self.key().unwrap_or_default());
        check_key(node, issued)?;
        if self.is_name_given { Ok(()) } else { check_vacant(&self.name, node, issued, now) }
    }

    pub(super) fn show(&self) -> WaitingRequest {
        let key = self.key().unwrap_or_default();
        WaitingRequest {
            node: node_id(&key),
            name: self.name.clone(),
            role: self.role,
            labels: self.labels.clone(),
            origin: Origin { host: self.host.clone(), address: self.address.clone() },
            asked: time(self.asked),
            fingerprint: Fingerprint::digest(&key),
        }
    }
}

/// Checks that no other member has the name.
fn check_vacant(name: &str, node: NodeId, issued: &[Issued], now: SystemTime) -> Result<(), JoinRefusal> {
    let has_name = |one: &&Issued| one.name == name && one.node != node;
    let is_valid = |one: &Issued| one.revoked.is_none() && now <= one.not_after;
    if issued.iter().filter(has_name).any(is_valid) { Err(JoinRefusal::NameTaken(name.to_owned())) } else { Ok(()) }
}

/// Checks that no certificate of the key was revoked.
pub(super) fn check_key(node: NodeId, issued: &[Issued]) -> Result<(), JoinRefusal> {
    let is_revoked = issued.iter().any(|one| one.node == node && one.revoked.is_some());
    if is_revoked { Err(JoinRefusal::KeyRevoked) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request;
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};

    #[test]
    fn address_that_fills_the_table_loses() {
        let (now, token) = (SystemTime::now(), Token::random().unwrap());
        let key = || KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let request = || SigningRequest::parse(request::make(&key(), None, None).unwrap().der()).unwrap();
        let mut invitations = Invitations::default();
        let [valid, certificate] = [Duration::from_secs(60); 2];
        let (role, labels) = (Role::Node, Labels::default());
        let spec = InvitationSpec { role, name: None, labels, valid, uses: 1000, needs_approval: true, certificate };
        invitations.add(&token, &spec, now).unwrap();
        let mut ask = |number: usize, address: &str| {
            let origin = Origin { host: format!("host-{number}"), address: address.to_owned() };
            let attempt = Attempt { token: &token, request: &request(), origin: &origin, ticket: number.to_string() };
            let decided = invitations.decide(attempt, &[], now);
            (decided, invitations.by_ticket("0").is_some(), invitations.waiting().count())
        };
        for number in 0..MAX_WAITING {
            let filled = ask(number, "10.0.0.1");
            assert_eq!(filled, (Ok(Decision::Wait { ticket: number.to_string() }), true, number + 1));
        }
        assert_eq!(ask(1000, "10.0.0.1"), (Err(JoinRefusal::TooManyWaiting), true, MAX_WAITING));
        assert_eq!(ask(1001, "10.0.0.2"), (Ok(Decision::Wait { ticket: "1001".into() }), false, MAX_WAITING));
    }
}
