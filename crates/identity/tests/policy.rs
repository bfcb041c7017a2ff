//! The policy's decisions: every reason for a refusal, and that no altered certificate is ever accepted.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use rcgen::{
    CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    SanType,
};
use roost_identity::group::{Group, Validity};
use roost_identity::{Identity, ListFault, LoadError, Policy, Refusal};
use roost_wire::{Role, RoleSet};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

const HOUR: Duration = Duration::from_secs(3600);

struct PolicyFixture {
    dir: tempfile::TempDir,
    group: Group,
    member: Identity,
    policy: Arc<Policy>,
}

impl PolicyFixture {
    fn new(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let group = Group::init(&dir.path().join("group"), name).unwrap();
        let member = group.issue_in_memory("uav7", Role::Node).unwrap();
        let policy = Policy::new(&member).unwrap();
        Self { dir, group, member, policy }
    }

    fn verify(&self, certificate: &[u8]) -> Result<(), Refusal> {
        self.policy.verify(certificate, RoleSet::ALL, SystemTime::now()).map(drop)
    }

    /// The CA itself, to sign certificates that a group would never issue.
    fn issuer(&self) -> Issuer<'static, KeyPair> {
        let dir = self.dir.path().join("group");
        let key = std::fs::read_to_string(dir.join("group.key")).unwrap();
        let certificate = std::fs::read_to_string(dir.join("group.pem")).unwrap();
        Issuer::from_ca_cert_pem(&certificate, KeyPair::from_pem(&key).unwrap()).unwrap()
    }
}

static WORLD: LazyLock<PolicyFixture> = LazyLock::new(|| PolicyFixture::new("alpha"));

fn member_params(uri: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    params
}

fn p256() -> KeyPair {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap()
}

#[test]
fn a_member_is_accepted() {
    assert_eq!(WORLD.verify(&WORLD.member.certificate_der()), Ok(()));
}

#[test]
fn other_group_differs_from_unknown_authority() {
    let (beta, impostor) = (PolicyFixture::new("beta"), PolicyFixture::new("alpha"));
    assert_eq!(WORLD.verify(&beta.member.certificate_der()), Err(Refusal::WrongGroup));
    assert_eq!(WORLD.verify(&impostor.member.certificate_der()), Err(Refusal::UnknownAuthority));
    let web = CertificateParams::new(["example.org".to_owned()]).unwrap();
    assert_eq!(WORLD.verify(web.self_signed(&p256()).unwrap().der()), Err(Refusal::UnknownAuthority));
    let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    assert_eq!(WORLD.verify(web.self_signed(&p384).unwrap().der()), Err(Refusal::UnknownAuthority));
}

#[test]
fn a_member_cannot_sign_for_others() {
    let key = KeyPair::try_from(WORLD.member.key_pkcs8_der()).unwrap();
    let mut params = member_params("roost:alpha:supernode:evil");
    params.is_ca = IsCa::NoCa;
    let issuer = Issuer::new(member_params("roost:alpha:node:uav7"), key);
    let forged = params.signed_by(&p256(), &issuer).unwrap();
    assert_eq!(WORLD.verify(forged.der()), Err(Refusal::UnknownAuthority));
}

#[test]
fn time_is_checked_to_the_second() {
    let member = &WORLD.member;
    let at = |now| WORLD.policy.verify(&member.certificate_der(), RoleSet::ALL, now).map(drop);
    let second = Duration::from_secs(1);
    assert_eq!(at(member.not_before() - second), Err(Refusal::NotYetValid));
    assert_eq!(at(member.not_before()), Ok(()));
    assert_eq!(at(member.not_after() + second / 2), Ok(()));
    assert_eq!(at(member.not_after() + second), Err(Refusal::Expired));
}

#[test]
fn roles_are_enforced() {
    for role in Role::ALL {
        let identity = WORLD.group.issue_in_memory("x", role).unwrap();
        for expected in Role::ALL {
            let verdict = WORLD.policy.verify(&identity.certificate_der(), RoleSet::only(expected), SystemTime::now());
            let right = if role == expected { None } else { Some(Refusal::WrongRole) };
            assert_eq!(verdict.err(), right, "{role} as {expected}");
        }
    }
}

#[test]
fn reasons_have_an_order() {
    let world = PolicyFixture::new("alpha");
    let bundle = world.dir.path().join("a");
    let (not_before, not_after) = (SystemTime::now() - HOUR * 2, SystemTime::now() - HOUR);
    world.group.issue("a", Role::Node, Validity::Between { not_before, not_after }, &bundle).unwrap();
    let identity = Identity::load(&bundle).unwrap();
    world.group.revoke("a").unwrap();
    assert_eq!(world.policy.reload().unwrap(), 1);
    let verify = |expect, now| world.policy.verify(&identity.certificate_der(), expect, now).unwrap_err();
    let server = RoleSet::only(Role::Server);
    assert_eq!(verify(server, SystemTime::now()), Refusal::Expired);
    assert_eq!(verify(server, not_after), Refusal::Revoked);
}

fn labels(content: &[u8]) -> rcgen::CustomExtension {
    rcgen::CustomExtension::from_oid_content(&[2, 25, 1_370_264_823], content.to_vec())
}

#[test]
fn labels_are_read_from_certificate() {
    let issuer = WORLD.issuer();
    let mut params = member_params("roost:alpha:node:x");
    params.custom_extensions = vec![labels(b"\x0c\x07a=b,c=d")];
    let certificate = params.signed_by(&p256(), &issuer).unwrap();
    let remote = WORLD.policy.verify(certificate.der(), RoleSet::ALL, SystemTime::now()).unwrap();
    assert_eq!(remote.labels.to_string(), "a=b,c=d");
    let longest: Vec<String> = (0..8).map(|key| format!("{key}{}={}", "k".repeat(31), "v".repeat(32))).collect();
    let longest = longest.join(",").parse().unwrap();
    let bundle = WORLD.dir.path().join("labelled");
    WORLD.group.issue_labelled("labelled", Role::Node, &longest, Validity::default(), &bundle).unwrap();
    let identity = Identity::load(&bundle).unwrap();
    assert_eq!(identity.labels(), longest);
    assert_eq!(
        WORLD.policy.verify(&identity.certificate_der(), RoleSet::ALL, SystemTime::now()).unwrap().labels,
        longest
    );
}

#[test]
fn signed_certificate_must_fit_profile() {
    let issuer = WORLD.issuer();
    let sign = |params: CertificateParams, key: &KeyPair| params.signed_by(key, &issuer).unwrap().der().to_vec();
    assert_eq!(WORLD.verify(&sign(member_params("roost:alpha:node:ok"), &p256())), Ok(()));
    assert_eq!(WORLD.verify(&sign(member_params("roost:beta:node:x"), &p256())), Err(Refusal::WrongGroup));

    let malformed = |change: fn(&mut CertificateParams)| {
        let mut params = member_params("roost:alpha:node:x");
        change(&mut params);
        assert_eq!(WORLD.verify(&sign(params, &p256())), Err(Refusal::Malformed));
    };
    malformed(|params| params.subject_alt_names.clear());
    malformed(|params| params.subject_alt_names.push(SanType::URI("roost:alpha:server:x".try_into().unwrap())));
    malformed(|params| params.subject_alt_names = vec![SanType::DnsName("roost".try_into().unwrap())]);
    malformed(|params| params.subject_alt_names = vec![SanType::URI("roost:alpha:king:x".try_into().unwrap())]);
    malformed(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    malformed(|params| params.extended_key_usages.clear());
    malformed(|params| params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained));
    malformed(|params| {
        let mut unknown = rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
        unknown.set_criticality(true);
        params.custom_extensions = vec![unknown];
    });
    malformed(|params| params.custom_extensions = vec![labels(b"\x0c\x00")]);
    malformed(|params| params.custom_extensions = vec![labels(b"\x0c\x01a")]);
    malformed(|params| params.custom_extensions = vec![labels(b"\x0c\x07b=c,a=b")]);
    malformed(|params| params.custom_extensions = vec![labels(b"\x0c\x81\x03a=b")]);
    malformed(|params| params.custom_extensions = vec![labels(b"\x0c\x03a=b\x00")]);
    malformed(|params| params.custom_extensions = vec![labels(b"\x04\x03a=b")]);
    malformed(|params| params.custom_extensions = vec![labels(b"\x0c\x03a=b"), labels(b"\x0c\x03a=b")]);
    malformed(|params| params.custom_extensions = vec![labels(&[&b"\x0c\x82\x02\x01"[..], &[b'a'; 513]].concat())]);
    let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let other_curve = sign(member_params("roost:alpha:node:x"), &p384);
    assert_eq!(WORLD.verify(&other_curve), Err(Refusal::Malformed));
}

#[test]
fn the_authority_itself_is_no_member() {
    let path = WORLD.dir.path().join("group/group.pem");
    let authority = CertificateDer::from_pem_file(path).unwrap();
    assert_eq!(WORLD.verify(&authority), Err(Refusal::Malformed));
}

#[test]
fn no_single_flipped_bit_is_accepted() {
    let good = WORLD.member.certificate_der();
    for bit in 0..good.len() * 8 {
        let mut bad = good.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(WORLD.verify(&bad).is_err(), "bit {bit} of {}", good.len() * 8);
    }
}

#[test]
fn oversized_and_padded_certificates_are_malformed() {
    let mut padded = WORLD.member.certificate_der().to_vec();
    padded.push(0);
    assert_eq!(WORLD.verify(&padded), Err(Refusal::Malformed));
    padded.resize(1 << 20, 0);
    assert_eq!(WORLD.verify(&padded), Err(Refusal::Malformed));
    assert_eq!(WORLD.verify(&[]), Err(Refusal::Malformed));
}

proptest! {
    #[test]
    fn altered_certificates_are_never_accepted(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let good = WORLD.member.certificate_der();
        let mut bad = good.to_vec();
        for (at, value) in changes {
            let at = at.index(bad.len());
            bad[at] = value;
        }
        if let Some(cut) = cut {
            bad.truncate(cut.index(bad.len()));
        }
        prop_assume!(*bad != *good);
        prop_assert!(WORLD.verify(&bad).is_err());
    }

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert_eq!(WORLD.verify(&bytes), Err(Refusal::Malformed));
    }
}

/// The number of a list that was seen is kept over a restart of the daemon.
#[test]
fn older_list_is_refused_after_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (group_dir, bundle, state) = (dir.path().join("group"), dir.path().join("a"), dir.path().join("state"));
    std::fs::create_dir(&state).unwrap();
    let group = Group::init(&group_dir, "alpha").unwrap();
    group.issue("a", Role::Node, Validity::default(), &bundle).unwrap();
    group.issue("b", Role::Node, Validity::default(), &dir.path().join("b")).unwrap();
    let (list, before) = (bundle.join("revoked.pem"), std::fs::read(bundle.join("revoked.pem")).unwrap());
    let start = || Policy::new(&Identity::load(&bundle).unwrap()).and_then(|policy| policy.remember_in(&state));
    start().unwrap();
    std::fs::copy(group.revoke("b").unwrap().list, &list).unwrap();
    start().unwrap();
    std::fs::write(&list, &before).unwrap();
    let said = start().unwrap_err().to_string();
    assert!(said.contains("number 1, older than number 2") && said.contains("copy the newest"), "{said}");
    // Another group has a number of its own, so its first list is accepted.
    let other = dir.path().join("other");
    let another = Group::init(&other, "alpha").unwrap();
    let bundle = dir.path().join("c");
    another.issue("c", Role::Node, Validity::default(), &bundle).unwrap();
    Policy::new(&Identity::load(&bundle).unwrap()).unwrap().remember_in(&state).unwrap();
}

#[test]
fn unreadable_number_protects_newest_list() {
    let dir = tempfile::tempdir().unwrap();
    let (bundle, state) = (dir.path().join("a"), dir.path().join("state"));
    std::fs::create_dir(&state).unwrap();
    let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
    group.issue("a", Role::Node, Validity::default(), &bundle).unwrap();
    group.issue("b", Role::Node, Validity::default(), &dir.path().join("b")).unwrap();
    let (list, first) = (bundle.join("revoked.pem"), std::fs::read(bundle.join("revoked.pem")).unwrap());
    let newest = std::fs::read(group.revoke("b").unwrap().list).unwrap();
    let policy = || Policy::new(&Identity::load(&bundle).unwrap()).unwrap();
    std::fs::write(&list, &newest).unwrap();
    policy().remember_in(&state).unwrap();
    let number = std::fs::read_dir(&state).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&number, "not a number\n").unwrap();
    std::fs::write(&list, &first).unwrap();
    let running = policy();
    let error = running.remember_in(&state).unwrap_err();
    assert!(error.to_string().contains("make it readable, or delete it"), "{error}");
    // The file does not keep a newer list from being in force.
    std::fs::write(&list, &newest).unwrap();
    assert_eq!(running.reload().unwrap(), 1);
    // Nor is a folder in its place taken for a host's first start.
    std::fs::remove_file(&number).unwrap();
    std::fs::create_dir(&number).unwrap();
    let error = policy().remember_in(&state).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}

#[test]
fn list_applies_without_stored_number() {
    let dir = tempfile::tempdir().unwrap();
    let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
    let bundle = dir.path().join("a");
    group.issue("a", Role::Node, Validity::default(), &bundle).unwrap();
    let policy = Policy::new(&Identity::load(&bundle).unwrap()).unwrap();
    let unkept = policy.remember_in(&dir.path().join("missing")).unwrap_err();
    assert!(matches!(unkept, LoadError::ListNumberUnwritable { .. }), "{unkept}");
    std::fs::copy(group.revoke("a").unwrap().list, bundle.join("revoked.pem")).unwrap();
    assert_eq!(policy.reload().unwrap(), 1);
}

#[test]
fn list_from_network_is_in_force_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
    let (bundle, state) = (dir.path().join("a"), dir.path().join("state"));
    std::fs::create_dir(&state).unwrap();
    group.issue("a", Role::Node, Validity::default(), &bundle).unwrap();
    for name in ["b", "c"] {
        group.issue(name, Role::Node, Validity::default(), &dir.path().join(name)).unwrap();
    }
    let start = || {
        let policy = Policy::new(&Identity::load(&bundle).unwrap()).unwrap();
        policy.remember_in(&state).map(|()| policy)
    };
    let policy = start().unwrap();
    let first = policy.signed_list();
    let second = std::fs::read(group.revoke("b").unwrap().list).unwrap();
    let taken = policy.take_list(&second).unwrap();
    assert!(taken.is_new && taken.unkept.is_none());
    assert_eq!((policy.revocations(), taken.document), ((2, 1), policy.signed_list()));
    let again = policy.take_list(&taken_der(&policy)).unwrap();
    assert!(!again.is_new);
    assert_eq!(policy.take_list(&first.bytes).unwrap_err(), ListFault::Older { held: 2, offered: 1 });
    // The bundle still has the first list.
    assert_eq!(policy.reload().unwrap(), 1);
    let restarted = start().unwrap();
    assert_eq!(restarted.revocations(), (2, 1));
    assert_eq!(restarted.reload().unwrap(), 1);
    // A file that is newer comes into force, and an older one does not after it.
    let third = std::fs::read(group.revoke("c").unwrap().list).unwrap();
    std::fs::write(bundle.join("revoked.pem"), &third).unwrap();
    assert_eq!(restarted.reload().unwrap(), 2);
    std::fs::write(bundle.join("revoked.pem"), &second).unwrap();
    assert!(restarted.reload().is_err());
    assert_eq!(restarted.revocations(), (3, 2));
    assert!(start().is_err());
}

fn taken_der(policy: &Policy) -> Vec<u8> {
    policy.signed_list().bytes.to_vec()
}

#[test]
fn foreign_lists_are_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let group = |name: &str| {
        let group = Group::init(&dir.path().join(name), "alpha").unwrap();
        let bundle = dir.path().join(format!("{name}-a"));
        group.issue("a", Role::Node, Validity::default(), &bundle).unwrap();
        (bundle, std::fs::read(group.revoke("a").unwrap().list).unwrap())
    };
    let ((bundle, own), (_, foreign)) = (group("one"), group("two"));
    let policy = Policy::new(&Identity::load(&bundle).unwrap()).unwrap();
    assert_eq!(policy.take_list(&foreign).unwrap_err(), ListFault::BadSignature);
    assert_eq!(policy.take_list(b"nothing").unwrap_err(), ListFault::Malformed);
    assert_eq!(policy.revocations(), (1, 0));
    assert!(policy.take_list(&own).unwrap().is_new);
    assert_eq!(policy.revocations(), (2, 1));
}

#[test]
fn newer_list_of_another_daemon_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
    let bundle = dir.path().join("a");
    group.issue("a", Role::Node, Validity::default(), &bundle).unwrap();
    for name in ["b", "c"] {
        group.issue(name, Role::Node, Validity::default(), &dir.path().join(name)).unwrap();
    }
    let start = || {
        let policy = Policy::new(&Identity::load(&bundle).unwrap()).unwrap();
        policy.remember_in(&bundle).unwrap();
        policy
    };
    let daemons = [start(), start()];
    let lists = ["b", "c"].map(|name| std::fs::read(group.revoke(name).unwrap().list).unwrap());
    daemons[0].take_list(&lists[1]).unwrap();
    daemons[1].take_list(&lists[0]).unwrap();
    assert_eq!(start().revocations(), (3, 2));
}

#[test]
fn renewal_keeps_member_key() {
    let dir = tempfile::tempdir().unwrap();
    let group = Group::init(&dir.path().join("group"), "alpha").unwrap();
    let (bundle, other) = (dir.path().join("a"), dir.path().join("b"));
    let now = SystemTime::now();
    group.issue("a", Role::Node, Validity::Days(1), &bundle).unwrap();
    group.issue("a", Role::Node, Validity::default(), &other).unwrap();
    let identity = Identity::load(&bundle).unwrap();
    let (node, end) = (identity.node(), identity.not_after());
    assert!(!identity.renew(&Identity::load(&bundle).unwrap(), now).unwrap());
    let said = identity.renew(&Identity::load(&other).unwrap(), now).unwrap_err().to_string();
    assert!(said.contains("another key"), "{said}");
    let issued = group.renew(&bundle, Validity::Days(30)).unwrap();
    assert_eq!((issued.node, identity.not_after()), (node, end));
    assert!(identity.renew(&Identity::load(&bundle).unwrap(), now).unwrap());
    assert!(identity.not_after() > end);
    assert_eq!(
        Policy::new(&identity).unwrap().verify(&identity.certificate_der(), RoleSet::ALL, now).unwrap().node,
        node
    );
    group.revoke("a").unwrap();
    assert!(group.renew(&bundle, Validity::Days(30)).unwrap_err().to_string().contains("cannot be renewed"));
}
