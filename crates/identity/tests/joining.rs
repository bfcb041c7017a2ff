//! Joining a group by invitation or by file, and everything that a device may do wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use roost_identity::group::{Group, GroupError, InvitationSpec, JoinRefusal, Joined, Origin, Ticket};
use roost_identity::{Answer, Enrolment, EnrolmentError, Identity, Owner, Policy, RenewalKey, SigningRequest, Token};
use roost_wire::{Labels, Role};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

struct Fixture {
    dir: tempfile::TempDir,
    group: Group,
    now: SystemTime,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        Self { dir, group, now: SystemTime::now() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn spec(&self) -> InvitationSpec {
        InvitationSpec {
            role: Role::Node,
            name: Some("uav7".into()),
            labels: Labels::default(),
            valid: HOUR,
            uses: 1,
            needs_approval: false,
            certificate: 30 * DAY,
        }
    }

    fn open(&self) -> InvitationSpec {
        InvitationSpec { name: None, uses: 5, ..self.spec() }
    }

    fn invite(&self, spec: &InvitationSpec) -> Token {
        self.group.invite(spec, self.now).unwrap()
    }

    fn join(&self, token: &Token, device: &str, name: Option<&str>, role: Option<Role>) -> Result<Joined, JoinRefusal> {
        let enrolment = Enrolment::begin(&self.path(device)).unwrap();
        let request = SigningRequest::parse(&enrolment.request(name, role).unwrap()).unwrap();
        let origin = Origin { host: device.to_owned(), address: "10.0.0.1".into() };
        self.group.join(token, &request, &origin, self.now).map_err(|error| match error {
            GroupError::Join(refusal) => refusal,
            other => panic!("{other}"),
        })
    }

    fn finish(&self, device: &str, answer: &Answer) -> Result<Identity, EnrolmentError> {
        let enrolment = Enrolment::begin(&self.path(device)).unwrap();
        enrolment.finish(answer, Some(self.group.fingerprint()), None, self.now)
    }
}

fn issued(joined: Result<Joined, JoinRefusal>) -> Box<Answer> {
    match joined {
        Ok(Joined::Issued(answer)) => answer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn invited_device_joins() {
    let fixture = Fixture::new();
    fixture.group.set_hubs(&["udp://10.0.0.2:7700,tcp://10.0.0.2:7700".into()]).unwrap();
    let answer = issued(fixture.join(&fixture.invite(&fixture.spec()), "device", None, None));
    assert_eq!(answer.hubs, ["udp://10.0.0.2:7700,tcp://10.0.0.2:7700"]);
    let identity = fixture.finish("device", &answer).unwrap();
    assert_eq!((identity.name(), identity.role(), identity.group()), ("uav7", Role::Node, "alpha"));
    assert!(identity.group_key().is_some());
    assert!(identity.not_after() <= fixture.now + 30 * DAY);
    assert!(!fixture.path("device.joining").exists());
    for (file, mode) in [("identity.key", 0o600), ("multicast.key", 0o600), ("identity.pem", 0o644), ("", 0o700)] {
        let found = fs::metadata(fixture.path("device").join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{file}");
    }
    let shown = fixture.group.show().unwrap();
    assert_eq!((shown.len(), shown[0].node), (1, identity.node()));
    let kept = fs::read_to_string(fixture.path("group/invitations.json")).unwrap();
    assert!(!kept.contains("PRIVATE"), "{kept}");
}

#[test]
fn lost_answer_is_given_again() {
    let fixture = Fixture::new();
    let token = fixture.invite(&fixture.spec());
    let first = issued(fixture.join(&token, "device", None, None));
    let second = issued(fixture.join(&token, "device", None, None));
    assert_eq!(first.certificate, second.certificate);
    assert_eq!(fixture.group.show().unwrap().len(), 1);
    fixture.finish("device", &second).unwrap();
    assert_eq!(fixture.join(&token, "thief", None, None), Err(JoinRefusal::UsedUp));
}

/// The authority's host fails after it has issued a certificate and before it has noted the use of the invitation.
#[test]
fn crash_after_issue_burns_no_invitation() {
    let fixture = Fixture::new();
    let token = fixture.invite(&InvitationSpec { uses: 1, ..fixture.open() });
    let file = fixture.path("group/invitations.json");
    let before = fs::read(&file).unwrap();
    issued(fixture.join(&token, "device", None, None));
    fs::write(&file, before).unwrap();
    let again = issued(fixture.join(&token, "device", None, None));
    fixture.finish("device", &again).unwrap();
    assert_eq!(fixture.join(&token, "thief", None, None), Err(JoinRefusal::UsedUp));
}

#[test]
fn bad_tokens_are_refused() {
    let mut fixture = Fixture::new();
    let guessed = "AAAAAAAAAAAAAAAAAAAAAA".parse().unwrap();
    assert_eq!(fixture.join(&guessed, "device", None, None), Err(JoinRefusal::UnknownToken));
    let token = fixture.invite(&fixture.spec());
    fixture.now += HOUR + Duration::from_secs(1);
    assert_eq!(fixture.join(&token, "device", None, None), Err(JoinRefusal::Expired));
    fixture.now += 30 * DAY;
    fixture.invite(&fixture.spec());
    assert_eq!(fixture.join(&token, "device", None, None), Err(JoinRefusal::UnknownToken));
    let withdrawn = fixture.invite(&fixture.open());
    let id = fixture.group.invitations(fixture.now).unwrap()[1].id.clone();
    fixture.group.withdraw(&id, fixture.now).unwrap();
    assert_eq!(fixture.join(&withdrawn, "device", None, None), Err(JoinRefusal::UnknownToken));
    assert_eq!(fixture.group.show().unwrap(), []);
}

#[test]
fn other_names_and_roles_are_refused() {
    let fixture = Fixture::new();
    let token = fixture.invite(&fixture.spec());
    let role = fixture.join(&token, "device", None, Some(Role::SuperNode));
    assert_eq!(role, Err(JoinRefusal::OtherRole { invited: Role::Node, requested: Role::SuperNode }));
    let name = fixture.join(&token, "device", Some("uav8"), None);
    assert!(matches!(name, Err(JoinRefusal::OtherName { .. })), "{name:?}");
    issued(fixture.join(&token, "device", Some("uav7"), Some(Role::Node)));

    let open = fixture.invite(&fixture.open());
    let taken = fixture.join(&open, "other", Some("uav7"), None);
    assert_eq!(taken, Err(JoinRefusal::NameTaken("uav7".into())));
    issued(fixture.join(&open, "host-9", None, None));
    assert_eq!(fixture.group.show().unwrap()[1].name, "host-9");
    // The operator may give the name of a lost device to another one.
    issued(fixture.join(&fixture.invite(&fixture.spec()), "replacement", None, None));
}

#[test]
fn revoked_key_does_not_come_back() {
    let fixture = Fixture::new();
    let open = fixture.invite(&fixture.open());
    issued(fixture.join(&open, "device", None, None));
    fixture.group.revoke("device").unwrap();
    for token in [fixture.invite(&fixture.open()), open] {
        assert_eq!(fixture.join(&token, "device", None, None), Err(JoinRefusal::KeyRevoked));
    }
}

#[test]
fn revoked_request_gets_no_answer() {
    let fixture = Fixture::new();
    let token = fixture.invite(&InvitationSpec { needs_approval: true, ..fixture.open() });
    let joined = fixture.join(&token, "device", None, None);
    let Ok(Joined::Waiting { ticket }) = joined else { panic!("{joined:?}") };
    fixture.group.approve("device", fixture.now).unwrap();
    fixture.group.revoke("device").unwrap();
    let refused = fixture.group.ticket(&ticket, fixture.now).unwrap_err();
    assert!(matches!(refused, GroupError::Join(JoinRefusal::KeyRevoked)), "{refused}");
    assert_eq!(fixture.join(&token, "device", None, None), Err(JoinRefusal::KeyRevoked));
}

#[test]
fn ended_certificate_is_not_given_again() {
    let mut fixture = Fixture::new();
    let token = fixture.invite(&InvitationSpec { valid: 5 * HOUR, certificate: HOUR, ..fixture.spec() });
    issued(fixture.join(&token, "device", None, None));
    fixture.now += 2 * HOUR;
    assert_eq!(fixture.join(&token, "device", None, None), Err(JoinRefusal::Expired));
}

#[test]
fn operator_approves_or_denies() {
    let fixture = Fixture::new();
    let token = fixture.invite(&InvitationSpec { needs_approval: true, ..fixture.open() });
    let wait = |device: &str| match fixture.join(&token, device, None, None) {
        Ok(Joined::Waiting { ticket }) => ticket,
        other => panic!("{other:?}"),
    };
    let (good, bad) = (wait("good"), wait("bad"));
    assert_eq!(wait("good"), good, "the same key has one request");
    let waiting = fixture.group.requests().unwrap();
    assert_eq!(waiting.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["good", "bad"]);
    let own = Enrolment::begin(&fixture.path("good")).unwrap().fingerprint();
    assert_eq!(waiting[0].fingerprint, own);
    assert_eq!(fixture.group.ticket(&good, fixture.now).unwrap(), Some(Ticket::Waiting));

    let digits = waiting[0].node.to_string();
    for slip in ["", &digits[..1], &digits[..3]] {
        assert!(matches!(fixture.group.approve(slip, fixture.now), Err(GroupError::NotWaiting(_))), "{slip:?}");
    }
    fixture.group.approve("good", fixture.now).unwrap();
    fixture.group.deny(&waiting[1].node.to_string(), fixture.now).unwrap();
    assert!(fixture.group.approve("good", fixture.now).is_err());
    let Some(Ticket::Approved(answer)) = fixture.group.ticket(&good, fixture.now).unwrap() else {
        panic!("not approved")
    };
    fixture.finish("good", &answer).unwrap();
    assert_eq!(fixture.group.ticket(&bad, fixture.now).unwrap(), Some(Ticket::Denied));
    assert_eq!(fixture.join(&token, "bad", None, None), Err(JoinRefusal::Denied));
    assert_eq!(fixture.group.ticket("0000", fixture.now).unwrap(), None);
}

#[test]
fn impossible_invitations_are_refused() {
    let fixture = Fixture::new();
    let possible = fixture.spec();
    for spec in [
        InvitationSpec { uses: 2, ..possible.clone() },
        InvitationSpec { uses: 0, ..possible.clone() },
        InvitationSpec { valid: 31 * DAY, ..possible.clone() },
        InvitationSpec { name: Some("a/b".into()), ..possible },
    ] {
        assert!(fixture.group.invite(&spec, fixture.now).is_err(), "{spec:?}");
    }
}

#[test]
fn failed_join_leaves_only_the_key() {
    let fixture = Fixture::new();
    let token = fixture.invite(&fixture.spec());
    let answer = issued(fixture.join(&token, "device", None, None));
    let files = || -> Vec<String> {
        let entries = fs::read_dir(fixture.path("device.joining")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    // A folder in the place of a file cannot be written over, whoever runs this test.
    fs::create_dir_all(fixture.path("device.joining/revoked.pem/full")).unwrap();
    let unwritable = fixture.finish("device", &answer).unwrap_err();
    assert!(matches!(&unwritable, EnrolmentError::Write { .. }), "{unwritable}");
    fs::remove_dir_all(fixture.path("device.joining/revoked.pem")).unwrap();
    assert_eq!(files(), ["identity.key"]);

    let other = Fixture::new();
    let foreign = issued(other.join(&other.invite(&other.spec()), "device", None, None));
    let pinned = fixture.finish("device", &foreign).unwrap_err();
    assert!(matches!(pinned, EnrolmentError::OtherAuthority), "{pinned}");
    let mixed = Answer { certificate: foreign.certificate.clone(), ..(*answer).clone() };
    assert!(matches!(fixture.finish("device", &mixed), Err(EnrolmentError::Load(_))));
    let unlisted = Answer { documents: Vec::new(), ..(*answer).clone() };
    assert!(matches!(fixture.finish("device", &unlisted), Err(EnrolmentError::Answer(_))));
    assert_eq!(files(), ["identity.key"]);
    assert!(!fixture.path("device").exists());
    fixture.finish("device", &answer).unwrap();
    assert!(matches!(Enrolment::begin(&fixture.path("device")), Err(EnrolmentError::Exists { .. })));
}

#[test]
fn answer_for_another_key_is_refused() {
    let fixture = Fixture::new();
    let open = fixture.invite(&fixture.open());
    let answer = issued(fixture.join(&open, "device", None, None));
    issued(fixture.join(&open, "thief", None, None));
    let stolen = fixture.finish("thief", &answer).unwrap_err();
    assert!(stolen.to_string().contains("sealed for another key"), "{stolen}");
}

#[test]
fn expired_answer_is_refused() {
    let mut fixture = Fixture::new();
    let answer = issued(fixture.join(&fixture.invite(&fixture.spec()), "device", None, None));
    fixture.now += 31 * DAY;
    let late = fixture.finish("device", &answer).unwrap_err().to_string();
    assert!(late.contains("expired on"), "{late}");
    // A host that has no clock yet waits in its daemon.
    fixture.now = SystemTime::UNIX_EPOCH;
    fixture.finish("device", &answer).unwrap();
}

/// Only root can give files away.
#[test]
fn root_gives_only_the_identity_away() {
    let fixture = Fixture::new();
    let answer = issued(fixture.join(&fixture.invite(&fixture.spec()), "device", None, None));
    let victim = fixture.path("victim");
    fs::write(&victim, "").unwrap();
    if chown(&victim, Some(65534), None).and_then(|()| chown(&victim, Some(0), None)).is_err() {
        return;
    }
    for name in ["extra", "multicast.key.old"] {
        symlink(&victim, fixture.path("device.joining").join(name)).unwrap();
    }
    let owner = Some(Owner { user: 65534, group: 65534 });
    Enrolment::begin(&fixture.path("device")).unwrap().finish(&answer, None, owner, fixture.now).unwrap();
    assert_eq!(fs::metadata(&victim).unwrap().uid(), 0);
    for file in ["", "identity.key", "identity.pem", "group.pem", "revoked.pem", "multicast.key"] {
        assert_eq!(fs::metadata(fixture.path("device").join(file)).unwrap().uid(), 65534, "{file}");
    }
}

#[test]
fn foreign_folder_is_not_filled() {
    let fixture = Fixture::new();
    let joining = fixture.path("device.joining");
    symlink(fixture.path("group"), &joining).unwrap();
    assert!(matches!(Enrolment::begin(&fixture.path("device")), Err(EnrolmentError::Write { .. })));
    fs::remove_file(&joining).unwrap();
    fs::create_dir(&joining).unwrap();
    if chown(&joining, Some(65534), None).is_ok() {
        assert!(matches!(Enrolment::begin(&fixture.path("device")), Err(EnrolmentError::Foreign { .. })));
    }
}

#[test]
fn request_by_file_is_signed() {
    let fixture = Fixture::new();
    let enrolment = Enrolment::begin(&fixture.path("device")).unwrap();
    let request = SigningRequest::parse(&enrolment.request(Some("sn1"), Some(Role::SuperNode)).unwrap()).unwrap();
    let validity = fixture.group.validity(DAY, fixture.now);
    let (signed, answer) = fixture.group.sign(&request, "sn1", Role::SuperNode, &Labels::default(), validity).unwrap();
    assert_eq!(answer.multicast_key, None);
    let text = serde_json::to_string(&answer).unwrap();
    let identity = fixture.finish("device", &serde_json::from_str(&text).unwrap()).unwrap();
    assert_eq!((identity.name(), identity.node()), ("sn1", signed.node));
    assert!(matches!(Enrolment::resume(&fixture.path("nowhere")), Err(EnrolmentError::NoKey { .. })));
}

fn labels(text: &str) -> Labels {
    text.parse().unwrap()
}

#[test]
fn labels_come_from_the_records() {
    let fixture = Fixture::new();
    let dir = fixture.path("device");
    let spec = InvitationSpec { labels: labels("role=scout,team=red"), ..fixture.spec() };
    let answer = issued(fixture.join(&fixture.invite(&spec), "device", None, None));
    let mut held = Arc::new(fixture.finish("device", &answer).unwrap());
    assert_eq!(held.labels(), spec.labels);
    let renew = |held: &Arc<Identity>, key| {
        let enrolment = Enrolment::renew(&dir, held, key).unwrap();
        let request = SigningRequest::parse(&enrolment.request(None, None).unwrap()).unwrap();
        let (_, answer) = fixture.group.renew_member(&held.certificate_der(), &request, fixture.now).unwrap();
        Arc::new(enrolment.finish(&answer, None, None, fixture.now).unwrap())
    };
    held = renew(&held, RenewalKey::Same);
    assert_eq!(held.labels(), spec.labels);
    let changed = fixture.group.set_labels("uav7", &labels("team=blue"), fixture.now).unwrap();
    assert_eq!((changed.len(), &changed[0].labels, &changed[0].next_labels), (1, &spec.labels, &labels("team=blue")));
    let renewed = renew(&held, RenewalKey::Same);
    assert!(held.renew(&renewed, fixture.now).unwrap(), "a running daemon takes other labels");
    assert_eq!(held.labels(), labels("team=blue"));
    let rotated = renew(&renewed, RenewalKey::New);
    assert_eq!(rotated.labels(), labels("team=blue"));
    fixture.group.set_labels("uav7", &Labels::default(), fixture.now).unwrap();
    fixture.group.renew(&dir, fixture.group.validity(DAY, fixture.now)).unwrap();
    assert_eq!(Identity::load(&dir).unwrap().labels(), Labels::default());
    assert!(fixture.group.set_labels("nobody", &labels("team=red"), fixture.now).is_err());
}

#[test]
fn policy_comes_with_the_identity() {
    let (fixture, foreign) = (Fixture::new(), Fixture::new());
    let validity = fixture.group.validity(DAY, fixture.now);
    fixture.group.issue("early", Role::Node, validity, &fixture.path("early")).unwrap();
    fixture.group.sign_policy("[[rule]]").unwrap();
    foreign.group.sign_policy("").unwrap();
    let answer = issued(fixture.join(&fixture.invite(&fixture.spec()), "device", None, None));
    let mut forged = answer.clone();
    *forged.documents.last_mut().unwrap() = foreign.group.documents().unwrap().pop().unwrap();
    let refused = fixture.finish("device", &forged);
    assert!(matches!(refused, Err(EnrolmentError::Answer("its policy is not signed by the group's authority"))));
    let identity = fixture.finish("device", &answer).unwrap();
    fixture.group.issue("late", Role::SuperNode, validity, &fixture.path("late")).unwrap();
    fixture.group.renew(&fixture.path("early"), validity).unwrap();
    for folder in ["device", "late", "early"] {
        let kept = fs::read(fixture.path(folder).join("policy.cbor")).unwrap();
        let policy = Policy::new(&identity).unwrap().open_document(&kept).unwrap();
        assert_eq!((policy.kind, policy.number, policy.content.as_slice()), (1, 1, b"[[rule]]".as_slice()), "{folder}");
    }
}

#[test]
fn approved_device_has_invited_labels() {
    let fixture = Fixture::new();
    let spec = InvitationSpec { labels: labels("team=red"), needs_approval: true, ..fixture.spec() };
    let token = fixture.invite(&spec);
    assert!(matches!(fixture.join(&token, "device", None, None), Ok(Joined::Waiting { .. })));
    assert_eq!(fixture.group.requests().unwrap()[0].labels, spec.labels);
    assert_eq!(fixture.group.approve("uav7", fixture.now).unwrap().labels, spec.labels);
    let answer = issued(fixture.join(&token, "device", None, None));
    assert_eq!(fixture.finish("device", &answer).unwrap().labels(), spec.labels);
}

#[test]
fn member_renews_with_either_key() {
    let fixture = Fixture::new();
    let dir = fixture.path("device");
    let answer = issued(fixture.join(&fixture.invite(&fixture.spec()), "device", None, None));
    let first = Arc::new(fixture.finish("device", &answer).unwrap());
    fs::write(dir.join("revocations-seen-0"), "1\n").unwrap();
    let renew = |held: &Arc<Identity>, key| {
        let enrolment = Enrolment::renew(&dir, held, key).unwrap();
        let request = SigningRequest::parse(&enrolment.request(None, None).unwrap()).unwrap();
        let renewed = fixture.group.renew_member(&held.certificate_der(), &request, fixture.now);
        renewed.map(|(_, answer)| Arc::new(enrolment.finish(&answer, None, None, fixture.now).unwrap()))
    };
    fs::create_dir(dir.join("notes")).unwrap();
    let folder = fs::metadata(&dir).unwrap().ino();
    let second = renew(&first, RenewalKey::Same).unwrap();
    assert_eq!(fs::metadata(&dir).unwrap().ino(), folder, "a folder may be a mount, which cannot be exchanged");
    assert!(dir.join("notes").exists());
    assert_eq!((second.node(), second.not_after()), (first.node(), first.not_after()));
    assert!(first.renew(&second, fixture.now).unwrap());
    let third = renew(&second, RenewalKey::New).unwrap();
    assert_ne!(third.node(), first.node());
    assert_eq!((third.name(), third.role()), ("uav7", Role::Node));
    assert!(dir.join("revocations-seen-0").exists() && !fixture.path("device.joining").exists());
    let replaced = Enrolment::renew(&dir, &first, RenewalKey::Same);
    assert!(matches!(replaced, Err(EnrolmentError::Replaced { .. })));
    let foreign = Fixture::new();
    let stranger = foreign.group.issue_in_memory("uav7", Role::Node).unwrap();
    let enrolment = Enrolment::renew(&dir, &third, RenewalKey::Same).unwrap();
    let request = SigningRequest::parse(&enrolment.request(None, None).unwrap()).unwrap();
    assert!(fixture.group.renew_member(&stranger.certificate_der(), &request, fixture.now).is_err());
    fixture.group.revoke("uav7").unwrap();
    assert!(renew(&third, RenewalKey::Same).unwrap_err().to_string().contains("revoked"));
}
