//! A group's authority changes: what the group's folder, the bundles and the members' policies make of it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use roost_identity::group::{Forced, Group, GroupError, GroupRecords, InvitationSpec, Issued, Joined, Origin};
use roost_identity::{
    Answer, Enrolment, EnrolmentError, Fingerprint, Identity, Policy, Refusal, RenewalKey, SignedDocument,
    SigningRequest,
};
use roost_wire::{Role, RoleSet};

const HOUR: Duration = Duration::from_secs(3600);

/// The first number of the lists that a group's second authority signs.
const SECOND: u64 = 1 << 32;

struct ChangingGroup {
    dir: tempfile::TempDir,
    group: Group,
}

impl ChangingGroup {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        Self { dir, group }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn issue(&self, name: &str) -> Issued {
        self.group.issue(name, Role::Node, Default::default(), &self.path(name)).unwrap()
    }

    /// A member with the policy of its daemon, which keeps what it hears in its own folder.
    fn member(&self, name: &str) -> (Arc<Identity>, Arc<Policy>) {
        let identity = Arc::new(Identity::load(&self.path(name)).unwrap());
        let policy = Policy::new(&identity).unwrap();
        policy.remember_in(&self.path(name)).unwrap();
        (identity, policy)
    }

    fn start(&self) -> Vec<u8> {
        let rollover = self.group.start_rollover(SystemTime::now()).unwrap();
        fs::read(rollover.document).unwrap()
    }

    fn finish(&self, forced: Forced) -> Vec<u8> {
        fs::read(self.group.finish_rollover(forced, SystemTime::now()).unwrap().document).unwrap()
    }

    fn behind(&self) -> Vec<String> {
        let rollover = GroupRecords::open(&self.path("group")).unwrap().rollover(SystemTime::now()).unwrap();
        rollover.behind.into_iter().map(|one| one.name).collect()
    }

    fn renew(&self, name: &str) {
        self.group.renew(&self.path(name), Default::default()).unwrap();
    }
}

fn judge(policy: &Policy, identity: &Identity) -> Result<String, Refusal> {
    policy.verify(&identity.certificate_der(), RoleSet::ALL, SystemTime::now()).map(|remote| remote.name)
}

#[test]
fn members_change_over_without_restart() {
    let world = ChangingGroup::new();
    world.issue("a");
    world.issue("b");
    let ((a, policy_a), (b, policy_b)) = (world.member("a"), world.member("b"));
    let before = (a.authority_fingerprint(), a.node());
    let (_, standing) = policy_a.admit(&b.certificate_der(), RoleSet::ALL, SystemTime::now()).unwrap();

    let document = world.start();
    assert_eq!(world.behind(), ["b", "a"]);
    assert!(policy_a.take_trust(&document).unwrap().is_new);
    assert!(!policy_a.take_trust(&document).unwrap().is_new);
    assert_ne!(a.authority_fingerprint(), before.0);
    assert_eq!(policy_a.recheck(&standing, SystemTime::now()), Ok(()), "a connection is touched");
    assert!(!a.is_of_authority_in_force());

    world.renew("b");
    assert_eq!(world.behind(), ["a"]);
    let renewed = Identity::load(&world.path("b")).unwrap();
    assert_eq!(renewed.node(), b.node());
    assert_eq!(judge(&policy_b, &renewed), Err(Refusal::UnknownAuthority), "it has not heard yet");
    // The renewed bundle brings the document along.
    assert!(b.renew(&renewed, SystemTime::now()).unwrap());
    assert!(b.is_of_authority_in_force());
    for policy in [&policy_a, &policy_b] {
        assert_eq!((judge(policy, &a), judge(policy, &b)), (Ok("a".into()), Ok("b".into())));
    }

    let error = world.group.finish_rollover(Forced::No, SystemTime::now()).unwrap_err();
    assert!(matches!(error, GroupError::ShutOut { count: 1, .. }) && error.to_string().contains("a ("), "{error}");
    let old_a = a.certificate_der();
    world.renew("a");
    a.renew(&Identity::load(&world.path("a")).unwrap(), SystemTime::now()).unwrap();
    let last = world.finish(Forced::No);
    for policy in [&policy_a, &policy_b] {
        policy.take_trust(&last).unwrap();
        assert_eq!((judge(policy, &a), judge(policy, &b)), (Ok("a".into()), Ok("b".into())));
        let refused = policy.verify(&old_a, RoleSet::ALL, SystemTime::now());
        assert_eq!(refused.unwrap_err(), Refusal::UnknownAuthority);
        assert_eq!(policy.recheck(&standing, SystemTime::now()), Err(Refusal::UnknownAuthority));
    }
    assert_eq!(a.node(), before.1);
    // The old key is gone, and the folder looks as before.
    assert!(!world.path("group/next.key").exists() && !world.path("group/next.pem").exists());
    Group::open(&world.path("group")).unwrap();
}

#[test]
fn members_of_one_name_are_told_apart() {
    let world = ChangingGroup::new();
    let issue = |dir: &str| world.group.issue("twin", Role::Node, Default::default(), &world.path(dir)).unwrap().node;
    let (one, other) = (issue("one"), issue("other"));
    world.start();
    world.renew("one");
    let error = world.group.finish_rollover(Forced::No, SystemTime::now()).unwrap_err().to_string();
    assert!(error.contains(&other.to_string()[..8]) && !error.contains(&one.to_string()[..8]), "{error}");
    // A key of which the records tell only that somebody of that name has it now.
    let world = ChangingGroup::new();
    let issue = |dir: &str| world.group.issue("twin", Role::Node, Default::default(), &world.path(dir)).unwrap().node;
    let both = [issue("one"), issue("other")];
    world.start();
    issue("third");
    let error = world.group.finish_rollover(Forced::No, SystemTime::now()).unwrap_err().to_string();
    assert!(both.iter().all(|id| error.contains(&id.to_string()[..8])), "{error}");
    issue("fourth");
    world.finish(Forced::No);
}

#[test]
fn trust_survives_a_restart() {
    let world = ChangingGroup::new();
    world.issue("a");
    let (_, policy) = world.member("a");
    policy.take_trust(&world.start()).unwrap();
    world.issue("late");
    let late = Identity::load(&world.path("late")).unwrap();
    let (_, again) = world.member("a");
    assert_eq!((again.signed_trust().number, judge(&again, &late)), (1, Ok("late".into())));
    // A list of the former authority is read again at a start, and is not accepted from others any more.
    let first = again.signed_list();
    again.take_trust(&world.finish(Forced::Yes)).unwrap();
    again.take_list(&first.bytes).unwrap_err();
    let (_, again) = world.member("a");
    assert_eq!(again.signed_trust().number, 2);
    let newest = fs::read(world.path("group/revoked.pem")).unwrap();
    assert_eq!(again.take_list(&newest).unwrap().document.number, SECOND);
}

#[test]
fn new_key_signs_lists_and_documents() {
    let world = ChangingGroup::new();
    world.issue("a");
    world.issue("lost");
    let (_, policy) = world.member("a");
    let document = world.start();
    world.group.revoke("lost").unwrap();
    let list = fs::read(world.path("group/revoked.pem")).unwrap();
    let signed = SignedDocument { kind: 1, number: 1, content: b"rules".to_vec() };
    let text = world.group.sign_document(&signed).unwrap();
    assert!(policy.take_list(&list).is_err() && policy.open_document(&text).is_err());
    policy.take_trust(&document).unwrap();
    assert_eq!(policy.take_list(&list).unwrap().document.number, SECOND);
    assert_eq!(policy.open_document(&text), Ok(signed));
}

/// The service of a group goes on with the key that another process has made, sealed or not.
#[test]
fn open_group_follows_the_change() {
    let world = ChangingGroup::new();
    let path = world.path("group");
    Group::seal(&path, "correct horse").unwrap();
    let serving = Group::open_sealed(&path, "correct horse").unwrap();
    let operator = Group::open_sealed(&path, "correct horse").unwrap();
    let before = serving.fingerprint();
    operator.start_rollover(SystemTime::now()).unwrap();
    let issued = serving.issue("a", Role::Node, Default::default(), &world.path("a")).unwrap();
    let identity = Identity::load(&world.path("a")).unwrap();
    assert_eq!((identity.node(), identity.authority_fingerprint()), (issued.node, operator.fingerprint()));
    assert_ne!(serving.fingerprint(), before);
    assert!(fs::read_to_string(path.join("next.key")).unwrap().contains("ENCRYPTED"));
    assert!(matches!(operator.start_rollover(SystemTime::now()), Err(GroupError::RolloverUnderWay)));
    operator.finish_rollover(Forced::No, SystemTime::now()).unwrap();
    assert!(matches!(serving.finish_rollover(Forced::No, SystemTime::now()), Err(GroupError::NoRollover)));
    serving.issue("b", Role::Node, Default::default(), &world.path("b")).unwrap();
    Group::unseal(&path, "correct horse").unwrap();
    Group::open(&path).unwrap();
}

/// Each state of the folder that a crash may leave behind opens, and one more command completes it.
#[test]
fn interrupted_change_is_completed() {
    let world = ChangingGroup::new();
    let at = |name: &str| world.path("group").join(name);
    // A start that was interrupted before its document was there.
    let foreign = tempfile::tempdir().unwrap();
    let other = Group::init(&foreign.path().join("g"), "alpha").unwrap();
    drop(other);
    fs::copy(foreign.path().join("g/group.key"), at("next.key")).unwrap();
    fs::copy(foreign.path().join("g/group.pem"), at("next.pem")).unwrap();
    assert_eq!(Group::open(&world.path("group")).unwrap().fingerprint(), world.group.fingerprint());
    let old_certificate = fs::read(at("group.pem")).unwrap();
    world.start();
    let [key, certificate] = ["next.key", "next.pem"].map(|name| fs::read_to_string(at(name)).unwrap());
    let in_force = world.group.fingerprint();
    world.finish(Forced::Yes);
    // An end that was interrupted after its document was there, and after the first file was in its place.
    let old_key = foreign.path().join("g/group.key");
    for is_key_moved in [false, true] {
        if !is_key_moved {
            fs::copy(&old_key, at("group.key")).unwrap();
            fs::write(at("next.key"), &key).unwrap();
            fs::set_permissions(at("next.key"), fs::metadata(&old_key).unwrap().permissions()).unwrap();
        }
        fs::write(at("group.pem"), &old_certificate).unwrap();
        fs::write(at("next.pem"), &certificate).unwrap();
        assert_eq!(Group::open(&world.path("group")).unwrap().fingerprint(), in_force);
        assert!(!at("next.key").exists() && !at("next.pem").exists(), "{is_key_moved}");
        assert_eq!(fs::read_to_string(at("group.pem")).unwrap(), certificate);
    }
}

fn invite(group: &GroupRecords, name: &str) -> roost_identity::Token {
    let name = Some(name.to_owned());
    let spec = InvitationSpec {
        role: Role::Node,
        name,
        valid: HOUR,
        uses: 1,
        needs_approval: false,
        certificate: HOUR,
        labels: Default::default(),
    };
    group.invite(&spec, SystemTime::now()).unwrap()
}

fn join(world: &ChangingGroup, device: &str) -> Box<Answer> {
    let token = invite(&world.group, device);
    let request = Enrolment::begin(&world.path(device)).unwrap().request(None, None).unwrap();
    let request = SigningRequest::parse(&request).unwrap();
    match world.group.join(&token, &request, &Origin::default(), SystemTime::now()).unwrap() {
        Joined::Issued(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// An invitation from before the change names the former authority.
#[test]
fn old_and_new_invitations_join() {
    let world = ChangingGroup::new();
    let old = world.group.fingerprint();
    world.start();
    let new = world.group.fingerprint();
    let finish = |device: &str, expected: Fingerprint| {
        let answer = join(&world, device);
        Enrolment::begin(&world.path(device)).unwrap().finish(&answer, Some(expected), None, SystemTime::now())
    };
    for (device, expected) in [("early", old), ("late", new)] {
        let identity = finish(device, expected).unwrap();
        assert_eq!(identity.authority_fingerprint(), new);
        let policy = Policy::new(&identity).unwrap();
        assert_eq!(judge(&policy, &Identity::load(&world.path(device)).unwrap()), Ok(device.into()));
    }
    let stranger = finish("stranger", Fingerprint::digest(b"x"));
    assert!(matches!(stranger, Err(EnrolmentError::OtherAuthority)));
    assert!(world.path("early/trust.cbor").exists());
}

#[test]
fn renewal_brings_the_new_authority() {
    let world = ChangingGroup::new();
    let answer = join(&world, "a");
    let first = Enrolment::begin(&world.path("a")).unwrap();
    let first = first.finish(&answer, None, None, SystemTime::now()).unwrap();
    world.start();
    for (turn, key) in [RenewalKey::Same, RenewalKey::New].into_iter().enumerate() {
        let held = Arc::new(Identity::load(&world.path("a")).unwrap());
        let enrolment = Enrolment::renew(&world.path("a"), &held, key).unwrap();
        let request = SigningRequest::parse(&enrolment.request(None, None).unwrap()).unwrap();
        let renewed = world.group.renew_member(&held.certificate_der(), &request, SystemTime::now());
        let (_, answer) = renewed.unwrap();
        let pinned = Some(held.authority_fingerprint());
        let fresh = enrolment.finish(&answer, pinned, None, SystemTime::now()).unwrap();
        assert_eq!(fresh.authority_fingerprint(), world.group.fingerprint(), "turn {turn}");
        assert_eq!(fresh.node() == first.node(), key == RenewalKey::Same);
    }
    world.finish(Forced::No);
    Identity::load(&world.path("a")).unwrap();
}

/// The former identity lies beside the new one if nobody could remove it.
#[test]
fn interrupted_exchange_never_brings_the_old_key_back() {
    let world = ChangingGroup::new();
    world.issue("a");
    let rotate = || {
        let held = Arc::new(Identity::load(&world.path("a")).unwrap());
        let enrolment = Enrolment::renew(&world.path("a"), &held, RenewalKey::New).unwrap();
        let request = SigningRequest::parse(&enrolment.request(None, None).unwrap()).unwrap();
        let (_, answer) = world.group.renew_member(&held.certificate_der(), &request, SystemTime::now()).unwrap();
        (held.node(), enrolment.finish(&answer, None, None, SystemTime::now()).unwrap().node())
    };
    let beside = world.path("a.joining");
    fs::create_dir(&beside).unwrap();
    for entry in fs::read_dir(world.path("a")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, beside.join(path.file_name().unwrap())).unwrap();
    }
    let (first, second) = rotate();
    assert_ne!(first, second);
    assert!(!beside.exists());
}

/// An answer that was lost costs no second key: the device asks for the same one again.
#[test]
fn interrupted_rotation_goes_on_with_its_key() {
    let world = ChangingGroup::new();
    world.issue("a");
    let held = Arc::new(Identity::load(&world.path("a")).unwrap());
    let asked = || Enrolment::renew(&world.path("a"), &held, RenewalKey::New).unwrap().fingerprint();
    assert_eq!(asked(), asked());
    assert_eq!(Identity::load(&world.path("a")).unwrap().node(), held.node());
}
