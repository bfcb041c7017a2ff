use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use roost_wire::RoleSet;

use super::*;
use crate::certificate::Serial;
use crate::refusal::Refusal;
use crate::revocation::MAX_REVOKED;
use crate::{ListFault, LoadError, Policy};

struct GroupFixture {
    dir: tempfile::TempDir,
    group: Group,
}

impl GroupFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
        Self { dir, group }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn issue(&self, name: &str) -> Issued {
        self.group.issue(name, Role::Node, Validity::default(), &self.path(name)).unwrap()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_bundle_loads_and_verifies() {
    let world = GroupFixture::new();
    let issued = world.issue("uav7");
    let identity = Identity::load(&world.path("uav7")).unwrap();
    assert_eq!((identity.name(), identity.group(), identity.role()), ("uav7", "alpha", Role::Node));
    assert_eq!(identity.node(), issued.node);
    identity.check_validity(SystemTime::now()).unwrap();
    let policy = Policy::new(&identity).unwrap();
    let remote = policy.verify(&identity.certificate_der(), RoleSet::ALL, SystemTime::now()).unwrap();
    assert_eq!((remote.node, remote.role, remote.name.as_str()), (issued.node, Role::Node, "uav7"));
    assert_eq!(crate::read_unverified(&identity.certificate_der()), Ok(remote));
    assert!(identity.certificate_der().len() < 500, "{}", identity.certificate_der().len());
}

#[test]
fn keys_are_private_and_directories_too() {
    let world = GroupFixture::new();
    world.issue("uav7");
    for (path, expected) in [
        ("group", 0o700),
        ("group/group.key", 0o600),
        ("uav7", 0o700),
        ("uav7/identity.key", 0o600),
        ("uav7/identity.pem", 0o644),
    ] {
        assert_eq!(mode(&world.path(path)) & expected, mode(&world.path(path)), "{path}");
    }
}

#[test]
fn exposed_key_error_names_fix() {
    let world = GroupFixture::new();
    world.issue("uav7");
    for key in ["uav7/identity.key", "group/group.key"] {
        fs::set_permissions(world.path(key), fs::Permissions::from_mode(0o640)).unwrap();
    }
    let error = Identity::load(&world.path("uav7")).unwrap_err().to_string();
    assert!(error.contains("chmod 600") && error.contains("identity.key"), "{error}");
    assert!(matches!(Group::open(&world.path("group")), Err(GroupError::Load(LoadError::KeyExposed { .. }))));
}

#[test]
fn nothing_is_written_over() {
    let world = GroupFixture::new();
    world.issue("uav7");
    let key = fs::read(world.path("uav7/identity.key")).unwrap();
    let again = world.group.issue("uav7", Role::Node, Validity::default(), &world.path("uav7"));
    assert!(matches!(again, Err(GroupError::Exists { .. })));
    assert!(matches!(Group::init(&world.path("group"), "beta"), Err(GroupError::Exists { .. })));
    assert_eq!(fs::read(world.path("uav7/identity.key")).unwrap(), key);
    assert_eq!(world.group.show().unwrap().len(), 1);
}

#[test]
fn a_failed_bundle_leaves_nothing_behind() {
    let world = GroupFixture::new();
    // The bundle's last file comes from one that others could read.
    fs::write(world.path("group/multicast.key"), "00").unwrap();
    let failed = world.group.issue("uav7", Role::Node, Validity::default(), &world.path("uav7"));
    assert!(matches!(failed, Err(GroupError::Load(LoadError::KeyExposed { .. }))));
    assert!(!world.path("uav7").exists());
}

#[test]
fn a_failed_group_leaves_nothing_behind() {
    const MAX_PATH_BYTES: usize = 4095;
    let world = GroupFixture::new();
    // The path has room for the directory but not for a file in it.
    let mut dir = world.dir.path().to_owned();
    while MAX_PATH_BYTES - 5 - dir.as_os_str().len() > 255 {
        dir.push("d".repeat(100));
    }
    fs::create_dir_all(&dir).unwrap();
    dir.push("d".repeat(MAX_PATH_BYTES - 6 - dir.as_os_str().len()));
    assert!(matches!(Group::init(&dir, "alpha"), Err(GroupError::Write { .. })));
    assert!(!dir.exists());
}

#[test]
fn bad_names_and_validities_are_refused() {
    let world = GroupFixture::new();
    assert!(matches!(Group::init(&world.path("x"), "a/b"), Err(GroupError::Name(_))));
    assert!(!world.path("x").exists());
    let ask = |name, validity| world.group.issue(name, Role::Node, validity, &world.path("y"));
    assert!(matches!(ask("..", Validity::default()), Err(GroupError::Name(_))));
    assert!(matches!(ask("a", Validity::Days(0)), Err(GroupError::Validity(_))));
    let (early, late) = (SystemTime::now(), SystemTime::now() + DAY);
    let between = |not_before, not_after| Validity::Between { not_before, not_after };
    assert!(matches!(ask("a", between(late, early)), Err(GroupError::Validity(_))));
    assert!(matches!(ask("a", between(early, late + DAY * 9999)), Err(GroupError::Validity(_))));
    assert!(!world.path("y").exists());
    let long = world.group.issue("long", Role::Node, Validity::Days(u32::MAX), &world.path("long")).unwrap();
    assert_eq!(long.not_after, world.group.not_after());
}

#[test]
fn reopened_group_continues_its_index() {
    let world = GroupFixture::new();
    let first = world.issue("uav7");
    let group = Group::open(&world.path("group")).unwrap();
    let second = group.issue("sn1", Role::SuperNode, Validity::Days(7), &world.path("sn1")).unwrap();
    assert_eq!(group.show().unwrap(), [first, second]);
    assert!(matches!(Group::open(&world.path("nowhere")), Err(GroupError::NoGroup { .. })));
}

#[test]
fn another_groups_key_is_noticed() {
    let (world, other) = (GroupFixture::new(), GroupFixture::new());
    world.issue("a");
    other.issue("a");
    fs::copy(other.path("group/group.key"), world.path("group/group.key")).unwrap();
    assert!(matches!(Group::open(&world.path("group")), Err(GroupError::WrongKey { .. })));
    fs::copy(other.path("a/identity.key"), world.path("a/identity.key")).unwrap();
    assert!(matches!(Identity::load(&world.path("a")), Err(LoadError::KeyMismatch { .. })));
}

#[test]
fn mixed_bundles_name_the_file() {
    let (world, other) = (GroupFixture::new(), GroupFixture::new());
    world.issue("a");
    other.issue("a");
    fs::copy(other.path("a/revoked.pem"), world.path("a/revoked.pem")).unwrap();
    let error = Identity::load(&world.path("a")).unwrap_err();
    assert!(matches!(&error, LoadError::List { fault: ListFault::BadSignature, .. }), "{error}");
    fs::copy(other.path("a/group.pem"), world.path("a/group.pem")).unwrap();
    let error = Identity::load(&world.path("a")).unwrap_err().to_string();
    assert!(error.contains("identity.pem") && error.contains("unknown authority"), "{error}");
    fs::write(world.path("a/identity.pem"), "nonsense").unwrap();
    let error = Identity::load(&world.path("a")).unwrap_err().to_string();
    assert!(error.contains("identity.pem does not hold exactly one certificate"), "{error}");
    fs::remove_file(world.path("a/identity.pem")).unwrap();
    assert!(matches!(Identity::load(&world.path("a")), Err(LoadError::Read { .. })));
}

#[test]
fn revoking_by_name_node_and_serial() {
    let world = GroupFixture::new();
    let by_name = world.issue("a");
    let by_node = world.issue("b");
    let by_serial = world.issue("c");
    let kept = world.issue("d");
    for (which, number) in [(by_name.name.clone(), 2), (by_node.node.to_string(), 3), (by_serial.serial.clone(), 4)] {
        let revocation = world.group.revoke(&which).unwrap();
        assert_eq!((revocation.revoked.len(), revocation.number), (1, number));
        assert_eq!(revocation.list, world.path("group/revoked.pem"));
    }
    let shown: Vec<bool> = world.group.show().unwrap().iter().map(|issued| issued.revoked.is_some()).collect();
    assert_eq!(shown, [true, true, true, false]);
    assert!(matches!(world.group.revoke("a"), Err(GroupError::AlreadyRevoked(_))));
    assert!(matches!(world.group.revoke("nobody"), Err(GroupError::NotIssued(_))));
    let now = SystemTime::now();
    assert_eq!(world.group.verify(&world.path("a"), now).unwrap().refusal, Some(Refusal::Revoked));
    let verdict = world.group.verify(&world.path(&kept.name), now).unwrap();
    assert!(verdict.refusal.is_none() && verdict.list_outdated);
}

#[test]
fn other_groups_bundle_is_refused() {
    let (world, other) = (GroupFixture::new(), GroupFixture::new());
    other.issue("a");
    let verdict = world.group.verify(&other.path("a"), SystemTime::now()).unwrap();
    assert_eq!(verdict.refusal, Some(Refusal::UnknownAuthority));
}

#[test]
fn older_revocation_list_is_refused() {
    let world = GroupFixture::new();
    world.issue("a");
    world.issue("b");
    let list = world.path("group/revoked.pem");
    let old = fs::read(&list).unwrap();
    let revocation = world.group.revoke("a").unwrap();

    let policy = Policy::new(&Identity::load(&world.path("b")).unwrap()).unwrap();
    assert_eq!(policy.reload().unwrap(), 0);
    fs::copy(&revocation.list, world.path("b/revoked.pem")).unwrap();
    assert_eq!(policy.reload().unwrap(), 1);
    assert_eq!(policy.reload().unwrap(), 1);
    fs::write(world.path("b/revoked.pem"), &old).unwrap();
    let error = policy.reload().unwrap_err();
    assert!(matches!(error, LoadError::List { fault: ListFault::Older { held: 2, offered: 1 }, .. }), "{error}");
    fs::write(world.path("b/revoked.pem"), "garbage").unwrap();
    assert!(matches!(policy.reload(), Err(LoadError::NotPem { .. })));
    fs::remove_file(world.path("b/revoked.pem")).unwrap();
    assert!(matches!(policy.reload(), Err(LoadError::Read { .. })));
    assert_eq!(policy.revocations(), (2, 1));

    fs::write(&list, &old).unwrap();
    assert!(matches!(world.group.revoke("b"), Err(GroupError::ListTooOld { found: 1, expected: 2, .. })));
}

#[test]
fn full_revocation_list_rejects_additions() {
    let world = GroupFixture::new();
    world.issue("a");
    let serials: Vec<Serial> =
        (0..MAX_REVOKED).map(|number| Serial::from_raw(&(number as u128 | 1 << 126).to_be_bytes())).collect();
    let now = SystemTime::now();
    let list = world.group.signer().unwrap().sign_list(2, now, serials.iter().map(|serial| (serial, now))).unwrap();
    fs::write(world.path("group/revoked.pem"), list).unwrap();
    assert!(matches!(world.group.revoke("a"), Err(GroupError::ListFull)));
    world.issue("b");
    assert_eq!(Policy::new(&Identity::load(&world.path("b")).unwrap()).unwrap().revocations(), (2, MAX_REVOKED));
}

#[test]
fn new_list_leaves_out_what_ended_long_ago() {
    let world = GroupFixture::new();
    let now = SystemTime::now();
    let issue = |name: &str, ended: u32| {
        let validity = Validity::Between { not_before: now - DAY * 100, not_after: now - DAY * ended };
        world.group.issue(name, Role::Node, validity, &world.path(name)).unwrap();
    };
    issue("old", 31);
    issue("older", 40);
    issue("late", 29);
    world.issue("a");
    let serial = Serial::from_hex(&world.group.show().unwrap()[0].serial).unwrap();
    let list = world.group.signer().unwrap().sign_list(2, now, [(&serial, now)].into_iter()).unwrap();
    fs::write(world.path("group/revoked.pem"), list).unwrap();
    assert_eq!(world.group.policy().unwrap().revocations(), (2, 1));
    assert!(matches!(world.group.revoke("older"), Err(GroupError::AlreadyRevoked(_))));
    world.group.revoke("a").unwrap();
    assert_eq!(world.group.policy().unwrap().revocations(), (3, 1));
    world.group.revoke("late").unwrap();
    assert_eq!(world.group.policy().unwrap().revocations(), (4, 2));
    assert!(matches!(
        world.group.renew(&world.path("old"), Validity::default()),
        Err(GroupError::NotRenewable { refusal: Refusal::Expired, .. })
    ));
}

#[test]
fn service_certificate_suits_slow_clocks() {
    use x509_parser::prelude::{FromDer, X509Certificate};
    let world = GroupFixture::new();
    let (now, valid) = (SystemTime::now(), DAY / 2);
    let (chain, _) = world.group.service_certificate(&world.group.authority(), "authority.roost", now, valid).unwrap();
    let (_, made) = X509Certificate::from_der(&chain[0]).unwrap();
    let begins = u64::try_from(made.validity().not_before.timestamp()).unwrap();
    assert!(UNIX_EPOCH + Duration::from_secs(begins) <= now - DAY / 4);
}

#[test]
fn same_number_lists_are_fork() {
    let world = GroupFixture::new();
    world.issue("a");
    world.issue("b");
    fs::create_dir(world.path("copy")).unwrap();
    for entry in fs::read_dir(world.path("group")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), world.path("copy").join(entry.file_name())).unwrap();
    }
    let ours = world.group.revoke("a").unwrap();
    let theirs = Group::open(&world.path("copy")).unwrap().revoke("b").unwrap();
    let policy = Policy::new(&Identity::load_with_list(&world.path("b"), &ours.list).unwrap()).unwrap();
    fs::copy(&theirs.list, &ours.list).unwrap();
    let error = policy.reload().unwrap_err();
    assert!(matches!(error, LoadError::List { fault: ListFault::Forked(2), .. }), "{error}");
}

#[test]
fn our_own_validity_is_told() {
    let world = GroupFixture::new();
    let now = SystemTime::now();
    let identity = world
        .group
        .issue_in_memory_with("a", Role::Node, Validity::Between { not_before: now, not_after: now + DAY })
        .unwrap();
    identity.check_validity(now).unwrap();
    identity.check_validity(identity.not_after()).unwrap();
    let early = identity.check_validity(now - DAY).unwrap_err();
    assert!(matches!(early, LoadError::NotYetValid { .. }), "{early}");
    let late = identity.check_validity(identity.not_after() + Duration::from_secs(1)).unwrap_err();
    assert!(matches!(late, LoadError::Expired { .. }), "{late}");
}

#[test]
fn in_memory_identities_are_unlisted_members() {
    let world = GroupFixture::new();
    let identity = world.group.issue_in_memory("load-1", Role::Node).unwrap();
    let policy = Policy::new(&identity).unwrap();
    assert!(policy.verify(&identity.certificate_der(), RoleSet::only(Role::Node), SystemTime::now()).is_ok());
    assert_eq!(world.group.show().unwrap(), []);
}

/// The list of the next authority replaces the greatest that the key of the former one can sign.
#[test]
fn stolen_key_signs_no_last_list() {
    let world = GroupFixture::new();
    world.issue("a");
    world.issue("b");
    let policy = Policy::new(&Identity::load(&world.path("a")).unwrap()).unwrap();
    let (now, stolen) = (SystemTime::now(), world.group.signer().unwrap());
    let take = |number| {
        let list = stolen.sign_list(number, now, std::iter::empty()).unwrap();
        policy.take_list(list.as_bytes()).map(|taken| taken.is_new)
    };
    assert_eq!(take(u64::MAX), Err(ListFault::LaterAuthority(u64::MAX)));
    let greatest = u64::from(u32::MAX);
    assert_eq!(take(greatest + 1), Err(ListFault::LaterAuthority(greatest + 1)));
    assert_eq!(take(greatest), Ok(true));
    let trust = fs::read(world.group.start_rollover(now).unwrap().document).unwrap();
    policy.take_trust(&trust).unwrap();
    let revocation = world.group.revoke("b").unwrap();
    assert_eq!(revocation.number, greatest + 1);
    assert!(policy.take_list(&fs::read(revocation.list).unwrap()).unwrap().is_new);
    assert!(matches!(take(greatest), Err(ListFault::Older { .. })));
    assert_eq!(world.group.sign_policy("").unwrap().0.number, greatest + 1);
}

#[test]
fn members_have_the_datum() {
    let datum = Datum::new("47.37,8.54".parse().unwrap(), "1km".parse().unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("group");
    let group = Group::init_at(&folder, "alpha", Some(&datum)).unwrap();
    let member = |group: &Group, name: &str| {
        let path = dir.path().join(name);
        group.issue(name, Role::Node, Validity::default(), &path).unwrap();
        Identity::load(&path).unwrap()
    };
    let first = member(&group, "first");
    assert_eq!((first.datum(), group.datum()), (Some(datum), Some(datum)));
    let begun = group.start_rollover(SystemTime::now()).unwrap();
    let during = member(&group, "during");
    group.finish_rollover(Forced::Yes, SystemTime::now()).unwrap();
    let after = member(&Group::open(&folder).unwrap(), "after");
    assert_eq!([during.datum(), after.datum()], [Some(datum); 2]);
    let document = fs::read(begun.document).unwrap();
    assert!(first.trust().put_in_force(&document).unwrap());
    assert_eq!(first.datum(), Some(datum));
    assert_eq!(member(&GroupFixture::new().group, "plain").datum(), None);
}

#[test]
fn damaged_datum_is_no_authority() {
    let text = |text: &str| x509_parser::asn1_rs::ToDer::to_der_vec(&x509_parser::asn1_rs::Utf8String::new(text));
    let right = Datum::new("47.37,8.54".parse().unwrap(), "1km".parse().unwrap()).unwrap();
    assert_eq!(crate::certificate::datum_extension(&right), text("47.37,8.54 1km").ok());
    for wrong in ["", "47.37,8.54", "47.37,8.54 1000m", "97.37,8.54 1km", "47.37,8.54 200km", "47.37,8.54  1km"] {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "alpha");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
        let oid = crate::certificate::DATUM_OID;
        let extension = rcgen::CustomExtension::from_oid_content(oid, text(wrong).unwrap());
        params.custom_extensions.push(extension);
        let made = params.self_signed(&key).unwrap();
        assert_eq!(Authority::parse(made.der()).err(), Some("its datum cannot be read"), "{wrong}");
    }
}
