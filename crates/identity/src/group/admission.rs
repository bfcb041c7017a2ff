//! Invitations and signing requests of devices, over the group's folder. Every change holds the lock of the index, so
//! that the operator's commands work beside a running authority.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand;
use data_encoding::HEXLOWER;
use rcgen::SubjectPublicKeyInfo;
use roost_wire::{Labels, NodeSelector, Role, format_node};

use super::index::Index;
use super::invitations::{
    Approval, Attempt, Decision, InvitationSpec, Invitations, MAX_INVITATIONS, MAX_USES, MAX_VALIDITY, Origin,
    ShownInvitation, WaitingRequest, check_key,
};
use super::records::pem_to_der;
use super::revocation::MIN_DIGITS;
use super::{BACKDATED, Group, GroupError, GroupRecords, Issued, JoinRefusal, Validity};
use crate::answer::Answer;
use crate::certificate::Certificate;
use crate::invitation_address::Token;
use crate::policy::member;
use crate::refusal::Refusal;
use crate::request::SigningRequest;
use crate::subject::{Subject, check_name};

/// The authority's reply to a device that wants to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    Issued(Box<Answer>),
    /// The operator has to approve. [`GroupRecords::ticket`] tells the end.
    Waiting {
        ticket: String,
    },
}

/// The state of a request that had to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ticket {
    Waiting,
    Approved(Box<Answer>),
    Denied,
}

impl GroupRecords {
    /// Invites: returns the token, which the group itself does not keep.
    ///
    /// # Errors
    /// The invitation is not possible, or the folder cannot be written.
    pub fn invite(&self, spec: &InvitationSpec, now: SystemTime) -> Result<Token, GroupError> {
        spec.name.as_deref().map_or(Ok(()), check_name)?;
        if spec.valid.is_zero() || spec.valid > MAX_VALIDITY {
            return Err(GroupError::Invitation("it may be valid for 30 days at most"));
        } else if spec.uses == 0 || spec.uses > MAX_USES {
            return Err(GroupError::Invitation("it may have from 1 to 256 uses"));
        } else if spec.name.is_some() && spec.uses > 1 {
            return Err(GroupError::Invitation("a name is for one device: leave out the name, or the uses"));
        }
        let token = Token::random().map_err(|_| rcgen::Error::RingUnspecified)?;
        self.change(now, |invitations, _| {
            let added = invitations.add(&token, spec, now);
            added.ok_or(GroupError::TooMany("invitations", MAX_INVITATIONS))
        })?;
        Ok(token)
    }

    /// The invitations that are open.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn invitations(&self, now: SystemTime) -> Result<Vec<ShownInvitation>, GroupError> {
        Ok(self.invitations.read()?.shown(now))
    }

    /// True if the group has invited with this token, even if the invitation has ended lately.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn is_invited(&self, token: &Token, now: SystemTime) -> Result<bool, GroupError> {
        Ok(self.invitations.read()?.knows(token, now))
    }

    /// Ends an invitation, by the id that [`Self::invitations`] gives.
    ///
    /// # Errors
    /// There is no such invitation, or the folder cannot be written.
    pub fn withdraw(&self, id: &str, now: SystemTime) -> Result<(), GroupError> {
        self.change(
            now,
            |invitations, _| {
                if invitations.withdraw(id) { Ok(()) } else { Err(GroupError::NotInvited(id.to_owned())) }
            },
        )
    }

    /// The requests that wait for approval, the oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn requests(&self) -> Result<Vec<WaitingRequest>, GroupError> {
        Ok(self.invitations.read()?.waiting().map(|request| request.show()).collect())
    }

    /// Denies the request of the device with this name, id or beginning of its id.
    ///
    /// # Errors
    /// None or several wait, or the folder cannot be written.
    pub fn deny(&self, which: &str, now: SystemTime) -> Result<WaitingRequest, GroupError> {
        self.change(now, |invitations, _| {
            let ticket = find_waiting(invitations, which)?;
            let request = invitations.by_ticket_mut(&ticket).ok_or(GroupError::NotWaiting(which.to_owned()))?;
            request.approval = Approval::Denied;
            Ok(request.show())
        })
    }

    /// The state of a request that had to wait; `None` if the ticket is not known, or not any more.
    ///
    /// # Errors
    /// The certificate was revoked or has expired since the approval, or the group's files cannot be read.
    pub fn ticket(&self, ticket: &str, now: SystemTime) -> Result<Option<Ticket>, GroupError> {
        let invitations = self.invitations.read()?;
        let Some(request) = invitations.by_ticket(ticket) else { return Ok(None) };
        Ok(Some(match &request.approval {
            Approval::Waiting => Ticket::Waiting,
            Approval::Denied => Ticket::Denied,
            Approval::Approved { certificate } => {
                self.check_again(certificate, &self.show()?, now)?;
                Ticket::Approved(Box::new(self.answer(certificate)?))
            }
        }))
    }

    /// Checks that a certificate made earlier, PEM, still counts: its answer has the newest multicast key.
    fn check_again(&self, certificate: &str, issued: &[Issued], now: SystemTime) -> Result<(), GroupError> {
        let der = pem_to_der(certificate).ok_or(GroupError::Crypto(rcgen::Error::CouldNotParseCertificate))?;
        // Of an authority that is not trusted any more it is as good as expired.
        let leaf = member(&der, &self.trust.get()).map_err(|_| JoinRefusal::Expired)?;
        check_key(leaf.node, issued)?;
        if leaf.status.check_time(now) == Err(Refusal::Expired) { Err(JoinRefusal::Expired.into()) } else { Ok(()) }
    }

    /// From a little before `now`, for clocks that are behind, to at the latest the end of the authority's certificate.
    pub fn validity(&self, valid: Duration, now: SystemTime) -> Validity {
        let end = now.checked_add(valid).unwrap_or_else(|| self.not_after());
        Validity::Between { not_before: now - BACKDATED, not_after: end.min(self.not_after()) }
    }

    /// Changes the invitations, with the index locked. Nothing is written if `action` fails.
    fn change<T>(
        &self,
        now: SystemTime,
        action: impl FnOnce(&mut Invitations, &mut Index) -> Result<T, GroupError>,
    ) -> Result<T, GroupError> {
        let mut index = self.index()?;
        let mut invitations = Arc::unwrap_or_clone(self.invitations.read()?);
        invitations.forget_old(now);
        let done = action(&mut invitations, &mut index)?;
        self.invitations.replace(&invitations)?;
        Ok(done)
    }
}

impl Group {
    /// Lets a device join that has an invitation's token. The same key gets the same certificate again while the
    /// invitation is valid, so that an answer may be lost.
    ///
    /// # Errors
    /// A [`JoinRefusal`], or the group's folder cannot be used. The invitation is not used up then.
    pub fn join(
        &self,
        token: &Token,
        request: &SigningRequest,
        origin: &Origin,
        now: SystemTime,
    ) -> Result<Joined, GroupError> {
        let attempt = Attempt { token, request, origin, ticket: new_ticket()? };
        let certificate = self.change(now, |invitations, index| {
            let issued = self.issued(index)?;
            let (subject, valid) = match invitations.decide(attempt, &issued, now)? {
                Decision::Wait { ticket } => return Ok(Err(ticket)),
                Decision::Again { certificate } => {
                    self.check_again(&certificate, &issued, now)?;
                    return Ok(Ok(certificate));
                }
                Decision::Issue { name, role, labels, valid } => (self.subject(&name, role, &labels)?, valid),
            };
            let (certificate, _) = self.certify(request.key(), &subject, self.validity(valid, now), index)?;
            invitations.use_up(token, request, &certificate);
            Ok(Ok(certificate))
        })?;
        Ok(match certificate {
            Ok(certificate) => Joined::Issued(Box::new(self.answer(&certificate)?)),
            Err(ticket) => Joined::Waiting { ticket },
        })
    }

    /// Approves the request of the device with this name, id or beginning of its id.
    ///
    /// # Errors
    /// None or several wait, another member has taken the name, or the folder cannot be written.
    pub fn approve(&self, which: &str, now: SystemTime) -> Result<Issued, GroupError> {
        self.change(now, |invitations, index| {
            let issued = self.issued(index)?;
            let ticket = find_waiting(invitations, which)?;
            let request = invitations.by_ticket_mut(&ticket).ok_or(GroupError::NotWaiting(which.to_owned()))?;
            request.check(&issued, now)?;
            let key = request.key().ok_or(GroupError::NotWaiting(which.to_owned()))?;
            let subject = self.subject(&request.name, request.role, &request.labels)?;
            let (certificate, issued) = self.certify(&key, &subject, self.validity(request.valid(), now), index)?;
            request.approval = Approval::Approved { certificate };
            Ok(issued)
        })
    }

    /// Signs a request that came by other means than the network, under a name, a role and labels of the operator's choice.
    ///
    /// # Errors
    /// The name or the validity cannot be used, or the group's folder.
    pub fn sign(
        &self,
        request: &SigningRequest,
        name: &str,
        role: Role,
        labels: &Labels,
        validity: Validity,
    ) -> Result<(Issued, Answer), GroupError> {
        let subject = self.subject(name, role, labels)?;
        let (certificate, issued) = self.certify(request.key(), &subject, validity, &mut self.index()?)?;
        Ok((issued, self.answer(&certificate)?))
    }

    /// Renews the certificate `held`, DER, of a member that holds its key, for as long as it was valid. The request may
    /// be for another key; the member then has another id.
    ///
    /// # Errors
    /// The certificate is not of this group, was revoked or has expired, or the group's folder cannot be used.
    pub fn renew_member(
        &self,
        held: &[u8],
        request: &SigningRequest,
        now: SystemTime,
    ) -> Result<(Issued, Answer), GroupError> {
        let refused = |refusal| GroupError::NotRenewable { path: "of the member".into(), refusal };
        let mut index = self.index()?;
        let leaf = member(held, &self.trust.get()).map_err(refused)?;
        leaf.status.check_time(now).map_err(refused)?;
        let (entries, list) = self.state(&mut index)?;
        let is_revoked = self.issued(&mut index)?.iter().any(|one| one.node == request.node() && one.revoked.is_some());
        if list.contains(&leaf.status.serial) || is_revoked {
            return Err(refused(Refusal::Revoked));
        }
        let whole = leaf.status.not_after.duration_since(leaf.status.not_before).unwrap_or_default();
        let validity = self.validity(whole.checked_sub(BACKDATED).unwrap_or(whole), now);
        let (certificate, issued) = self.certify(request.key(), &entries.renewed(&leaf), validity, &mut index)?;
        Ok((issued, self.answer(&certificate)?))
    }

    /// Makes a certificate for a key of a member and adds it to the index. Returns it as PEM.
    pub(super) fn certify(
        &self,
        key: &[u8],
        subject: &Subject,
        validity: Validity,
        index: &mut Index,
    ) -> Result<(String, Issued), GroupError> {
        let key = SubjectPublicKeyInfo::from_der(key)?;
        let (not_before, not_after) = self.period(validity)?;
        let made = self.signer()?.certify(&key, subject, not_before, not_after)?;
        let leaf = Certificate::parse(made.der()).and_then(|certificate| certificate.leaf());
        let issued = Issued::new(&leaf.ok_or(GroupError::Crypto(rcgen::Error::CouldNotParseCertificate))?);
        let listed = index.add_issued(&issued);
        listed.map_err(|source| GroupError::Index { path: index.path().to_owned(), source })?;
        Ok((made.pem(), issued))
    }
}

fn new_ticket() -> Result<String, GroupError> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).map_err(|_| rcgen::Error::RingUnspecified)?;
    Ok(HEXLOWER.encode(&bytes))
}

/// The ticket of the only waiting request with this name, or an id that begins with these digits, at least
/// [`MIN_DIGITS`].
fn find_waiting(invitations: &Invitations, which: &str) -> Result<String, GroupError> {
    let none = || GroupError::NotWaiting(which.to_owned());
    let selector: NodeSelector = which.parse().map_err(|_| none())?;
    let is_long = which.len() >= MIN_DIGITS;
    let matches = |request: &WaitingRequest| request.name == which || is_long && selector.matches(request.node, None);
    let mut found: Vec<_> = invitations.waiting().map(|one| (one.show(), &one.ticket)).collect();
    found.retain(|(shown, _)| matches(shown));
    match found.as_slice() {
        [] => Err(none()),
        [(_, ticket)] => Ok((*ticket).clone()),
        several => {
            let members: Vec<_> = several.iter().map(|(one, _)| format_node(one.node, Some(&one.name))).collect();
            Err(GroupError::Several { which: which.to_owned(), members: members.join(", ") })
        }
    }
}
