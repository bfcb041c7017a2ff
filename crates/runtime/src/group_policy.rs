//! The group's policy in force, from a document that the authority has signed.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use roost_api::PolicyStatus;
use roost_identity::{ListFault, LoadError, Policy as Verifier, SignedDocument};
use roost_policy::{Policy, PolicyError};
use roost_wire::messages::DocumentKind;

/// The policy that a daemon holds; `None` if the group has none, which allows everything.
#[derive(Debug, Default)]
pub(crate) struct GroupPolicy(Mutex<Option<HeldPolicy>>);

#[derive(Clone, Debug)]
pub(crate) struct HeldPolicy {
    pub(crate) number: u64,
    pub(crate) bytes: Bytes,
    /// `None` once the group's policy was withdrawn.
    pub(crate) rules: Option<Arc<Policy>>,
}

/// The outcome of a policy that was offered and is genuine.
#[derive(Debug)]
pub(crate) struct TakenPolicy {
    pub(crate) held: HeldPolicy,
    /// False of the one that was in force already.
    pub(crate) is_new: bool,
    /// Why it is not on disk, although it is in force.
    pub(crate) unkept: Option<LoadError>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyFault {
    #[error(transparent)]
    Document(#[from] ListFault),
    /// The authority has signed rules that this version does not read, so it is not the sender's fault.
    #[error("{0}; if this is no mistake, upgrade this daemon")]
    Rules(PolicyError),
}

impl GroupPolicy {
    /// Puts the newest of these policies in force: the one that was kept before this start, and the one that the
    /// authority gave with a certificate. One that cannot be read is missing, which is logged. True if it is a new one.
    pub(crate) fn load(&self, verifier: &Verifier, given: Option<Vec<u8>>) -> bool {
        let documents = [verifier.kept_document(DocumentKind::POLICY.0), given].into_iter().flatten();
        let taken = documents.map(Bytes::from).map(|bytes| match self.put_in_force(verifier, bytes.clone()) {
            Ok(taken) => taken.is_new,
            Err(PolicyFault::Document(ListFault::Older { .. })) => false,
            Err(PolicyFault::Document(ListFault::BadSignature)) if self.hold_former(verifier, &bytes) => true,
            Err(error) => {
                tracing::error!(%error, "the group's policy cannot be read: what it forbids stays allowed until it is sent again");
                false
            }
        });
        taken.fold(false, |any, is_new| any | is_new)
    }

    /// Goes on with the rules that a former authority has signed, until the one in force has signed them again. Any
    /// policy of that one is newer, so they count as number 0. False if they are not genuine, or others are in force.
    fn hold_former(&self, verifier: &Verifier, bytes: &Bytes) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let former = verifier.open_former_document(bytes).ok().filter(|_| held.is_none());
        let Some(Ok(rules)) = former.map(|document| rules_of(&document)) else { return false };
        *held = Some(HeldPolicy { number: 0, bytes: bytes.clone(), rules });
        true
    }

    pub(crate) fn held(&self) -> Option<HeldPolicy> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn status(&self) -> Option<PolicyStatus> {
        self.held().and_then(|held| Some(PolicyStatus { number: held.number, rules: held.rules?.len() as u64 }))
    }

    /// Verifies a policy, puts it in force if it is newer, and keeps it.
    ///
    /// # Errors
    /// The bytes are no policy of the group, or an older one.
    pub(crate) fn put_in_force(&self, verifier: &Verifier, bytes: Bytes) -> Result<TakenPolicy, PolicyFault> {
        let (offered, document) = read(verifier, bytes)?;
        let is_new = {
            let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let number = held.as_ref().map_or(0, |held| held.number);
            if offered.number < number {
                return Err(ListFault::Older { held: number, offered: offered.number }.into());
            }
            if held.as_ref().is_some_and(|held| held.number == offered.number && held.rules != offered.rules) {
                return Err(ListFault::Forked(number).into());
            }
            held.replace(offered.clone()).is_none_or(|before| before.number < offered.number)
        };
        let kept = if is_new { verifier.keep_document(&document, &offered.bytes) } else { Ok(()) };
        Ok(TakenPolicy { held: offered, is_new, unkept: kept.err() })
    }
}

fn read(verifier: &Verifier, bytes: Bytes) -> Result<(HeldPolicy, SignedDocument), PolicyFault> {
    let document = verifier.open_document(&bytes)?;
    let rules = rules_of(&document)?;
    Ok((HeldPolicy { number: document.number, bytes, rules }, document))
}

fn rules_of(document: &SignedDocument) -> Result<Option<Arc<Policy>>, PolicyFault> {
    if document.kind != DocumentKind::POLICY.0 {
        return Err(ListFault::Malformed.into());
    }
    let text = std::str::from_utf8(&document.content).map_err(|_| ListFault::Malformed)?;
    let parsed = (!text.is_empty()).then(|| text.parse::<Policy>().map(Arc::new)).transpose();
    parsed.map_err(PolicyFault::Rules)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use data_encoding::BASE64;
    use roost_identity::group::{Forced, Group};

    use super::*;

    #[test]
    fn only_newer_genuine_policies_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        let verifier = group.policy().unwrap();
        verifier.remember_in(dir.path()).unwrap();
        let policy = GroupPolicy::default();
        let signed = |kind, number, text: &str| {
            let document = SignedDocument { kind, number, content: text.as_bytes().to_vec() };
            Bytes::from(group.sign_document(&document).unwrap())
        };
        let allow = "[[rule]]\nallow = [\"all\"]";
        assert!(policy.put_in_force(&verifier, signed(1, 3, allow)).unwrap().is_new);
        assert!(!policy.put_in_force(&verifier, signed(1, 3, allow)).unwrap().is_new);
        assert!(matches!(
            policy.put_in_force(&verifier, signed(1, 2, "")),
            Err(PolicyFault::Document(ListFault::Older { held: 3, offered: 2 }))
        ));
        assert!(matches!(
            policy.put_in_force(&verifier, signed(1, 3, "")),
            Err(PolicyFault::Document(ListFault::Forked(3)))
        ));
        assert!(matches!(policy.put_in_force(&verifier, signed(1, 4, "allow = 1")), Err(PolicyFault::Rules(_))));
        assert!(policy.put_in_force(&verifier, signed(2, 4, allow)).is_err(), "another kind");
        assert!(policy.put_in_force(&verifier, Bytes::from_static(b"none")).is_err());
        assert_eq!(policy.status(), Some(PolicyStatus { number: 3, rules: 1 }));
        let restarted = GroupPolicy::default();
        assert!(restarted.load(&verifier, None));
        assert_eq!(restarted.status(), policy.status());
        assert!(!restarted.load(&verifier, Some(signed(1, 2, allow).to_vec())), "an older one");
        assert!(restarted.load(&verifier, Some(signed(1, 5, "").to_vec())));
        assert_eq!(restarted.status(), None, "it was withdrawn");
    }

    #[test]
    fn rules_of_a_former_authority_hold_until_they_are_signed_again() {
        let (dir, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        let verifier = group.policy().unwrap();
        verifier.remember_in(dir.path()).unwrap();
        let (_, signed) = group.sign_policy("[[rule]]\nallow = [\"all\"]").unwrap();
        GroupPolicy::default().put_in_force(&verifier, signed.into()).unwrap();
        group.start_rollover(now).unwrap();
        group.finish_rollover(Forced::No, now).unwrap();
        let restarted = GroupPolicy::default();
        assert!(restarted.load(&verifier, None));
        assert_eq!(restarted.status(), Some(PolicyStatus { number: 0, rules: 1 }));
        let again = group.documents().unwrap().into_iter().find(|document| document.kind == "policy").unwrap();
        let again = BASE64.decode(again.text.as_bytes()).unwrap();
        assert!(restarted.put_in_force(&verifier, again.into()).unwrap().is_new);
        assert_eq!(restarted.status(), Some(PolicyStatus { number: 1 << 32, rules: 1 }));
    }
}
