use std::time::{Duration, SystemTime};

use roost_geo::Datum;

use super::*;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

struct Ca {
    authority: Arc<Authority>,
    signer: Arc<Signer>,
}

impl Ca {
    fn new(group: &str) -> Self {
        Self::at(group, None)
    }

    fn at(group: &str, datum: Option<&Datum>) -> Self {
        let now = SystemTime::now();
        let made = Signer::generate(group, datum, now, now + YEAR).unwrap();
        let authority = Arc::new(Authority::parse(made.certificate.der()).unwrap());
        let signer = Signer::new(Arc::clone(&authority), made.key.serialized_der()).unwrap().unwrap();
        Self { authority, signer: Arc::new(signer) }
    }

    fn trust(&self) -> Trust {
        Trust::anchored(Authority::parse(self.authority.der()).unwrap())
    }
}

fn extended(trust: &Trust, trusted: &[&Ca], signers: &[&Ca]) -> Vec<u8> {
    let trusted: Vec<&Authority> = trusted.iter().map(|ca| &*ca.authority).collect();
    let signers: Vec<Arc<Signer>> = signers.iter().map(|ca| Arc::clone(&ca.signer)).collect();
    trust.extended(&trusted, &signers).unwrap()
}

fn fault(trust: &Trust, document: &[u8]) -> ListFault {
    trust.advance(document).err().expect("the document is taken")
}

fn trusted(trust: &Trust) -> Vec<Fingerprint> {
    trust.ranked().map(|authority| authority.fingerprint()).collect()
}

#[test]
fn trust_goes_from_one_authority_to_the_next() {
    let (old, new) = (Ca::new("alpha"), Ca::new("alpha"));
    let both = old.trust().advance(&extended(&old.trust(), &[&old, &new], &[&old, &new])).unwrap();
    assert_eq!(trusted(&both), [old.authority.fingerprint(), new.authority.fingerprint()]);
    let last = extended(&both, &[&new], &[&new, &old]);
    let after = both.advance(&last).unwrap();
    assert_eq!((after.number(), trusted(&after)), (2, vec![new.authority.fingerprint()]));
    assert!(!after.trusts(old.authority.fingerprint()) && *after.first() == *old.authority);
    // A member that has missed the first step gets to the same end as one that knows the new authority alone.
    for anchor in [&old, &new] {
        assert_eq!(trusted(&anchor.trust().advance(&last).unwrap()), trusted(&after));
    }
}

#[test]
fn chain_leads_over_many_authorities() {
    let cas: Vec<Ca> = (0..5).map(|_| Ca::new("alpha")).collect();
    let mut trust = cas[0].trust();
    for pair in cas.windows(2) {
        let (old, new) = (&pair[0], &pair[1]);
        trust = trust.advance(&extended(&trust, &[old, new], &[old, new])).unwrap();
        trust = trust.advance(&extended(&trust, &[new], &[new, old])).unwrap();
    }
    for anchor in &cas {
        let walked = anchor.trust().advance(trust.document()).unwrap();
        assert_eq!((walked.number(), trusted(&walked)), (8, trusted(&trust)));
        assert!(*walked.first() == *cas[0].authority);
    }
    let stranger = Ca::new("alpha");
    assert_eq!(fault(&stranger.trust(), trust.document()), ListFault::BadSignature);
}

#[test]
fn every_authority_concerned_must_sign() {
    let (old, new, thief) = (Ca::new("alpha"), Ca::new("alpha"), Ca::new("alpha"));
    let start = old.trust();
    let wrong: [&[&Ca]; 6] = [&[], &[&old], &[&new], &[&thief], &[&thief, &new], &[&old, &thief]];
    for signers in wrong {
        assert_eq!(fault(&start, &extended(&start, &[&old, &new], signers)), ListFault::BadSignature);
    }
    let both = start.advance(&extended(&start, &[&old, &new], &[&old, &new])).unwrap();
    for signers in wrong {
        assert_eq!(fault(&both, &extended(&both, &[&new], signers)), ListFault::BadSignature);
        // A stolen old key alone does not turn the change back either.
        assert_eq!(fault(&both, &extended(&both, &[&old], signers)), ListFault::BadSignature);
    }
}

/// A member's key is not that of an authority, whatever it signs.
#[test]
fn members_certificate_is_no_authority() {
    let (old, now) = (Ca::new("alpha"), SystemTime::now());
    let subject = crate::subject::Subject {
        group: "alpha".into(),
        role: roost_wire::Role::SuperNode,
        name: "mallory".into(),
        labels: Default::default(),
    };
    let member = old.signer.issue(&subject, now, now + YEAR).unwrap();
    let content = encoded(&Content {
        previous: [].as_slice().into(),
        certificates: vec![old.authority.der().into(), member.certificate.der().as_ref().into()],
    });
    let statement = encoded(&Statement { kind: KIND, group: "alpha", number: 1, content: content.as_slice().into() });
    use rcgen::SigningKey;
    let signature = member.key.sign(&signed_bytes(&statement)).unwrap();
    let step = Step { statement: statement.as_slice().into(), signatures: vec![signature.as_slice().into()] };
    assert_eq!(fault(&old.trust(), &encoded(&vec![step])), ListFault::Malformed);
}

#[test]
fn third_authority_at_once_is_refused() {
    let (old, new, third) = (Ca::new("alpha"), Ca::new("alpha"), Ca::new("alpha"));
    let start = old.trust();
    let all = [&old, &new, &third];
    assert_eq!(fault(&start, &extended(&start, &all, &all)), ListFault::Malformed);
    let both = start.advance(&extended(&start, &[&old, &new], &[&old, &new])).unwrap();
    for next in [&[&new, &third][..], &[&old, &third], &[&third]] {
        assert_eq!(fault(&both, &extended(&both, next, &[&old, &new])), ListFault::Malformed);
    }
}

#[test]
fn another_groups_document_is_refused() {
    let (ours, other, next) = (Ca::new("alpha"), Ca::new("beta"), Ca::new("beta"));
    let document = extended(&other.trust(), &[&other, &next], &[&other, &next]);
    assert_eq!(fault(&ours.trust(), &document), ListFault::Malformed);
    // A group of the same name has other keys.
    let (twin, next) = (Ca::new("alpha"), Ca::new("alpha"));
    let document = extended(&twin.trust(), &[&twin, &next], &[&twin, &next]);
    assert_eq!(fault(&ours.trust(), &document), ListFault::BadSignature);
    // An authority of another group is not taken over.
    let document = extended(&ours.trust(), &[&ours, &other], &[&ours, &other]);
    assert_eq!(fault(&ours.trust(), &document), ListFault::Malformed);
}

#[test]
fn numbers_never_go_back() {
    let (old, new, fork) = (Ca::new("alpha"), Ca::new("alpha"), Ca::new("alpha"));
    let first = extended(&old.trust(), &[&old, &new], &[&old, &new]);
    let both = old.trust().advance(&first).unwrap();
    let after = both.advance(&extended(&both, &[&new], &[&new, &old])).unwrap();
    assert_eq!(fault(&after, &first), ListFault::Older { held: 2, offered: 1 });
    assert_eq!(after.advance(after.document()).unwrap().number(), 2);
    let other = extended(&old.trust(), &[&old, &fork], &[&old, &fork]);
    assert_eq!(fault(&both, &other), ListFault::Forked(1));
}

#[test]
fn altered_or_truncated_document_is_refused() {
    let (old, new) = (Ca::new("alpha"), Ca::new("alpha"));
    let both = old.trust().advance(&extended(&old.trust(), &[&old, &new], &[&old, &new])).unwrap();
    let document = extended(&both, &[&new], &[&new, &old]);
    for byte in 0..document.len() {
        let mut bad = document.clone();
        bad[byte] ^= 1 << (byte % 8);
        assert!(old.trust().advance(&bad).is_err(), "byte {byte}");
        assert!(old.trust().advance(&document[..byte]).is_err(), "{byte} bytes");
    }
    assert!(old.trust().advance(&[document.as_slice(), &[0]].concat()).is_err());
}

#[test]
fn datum_never_changes() {
    let zurich = Datum::new("47.37,8.54".parse().unwrap(), "1km".parse().unwrap()).unwrap();
    let fine = Datum::new(zurich.origin(), "100m".parse().unwrap()).unwrap();
    let old = Ca::at("alpha", Some(&zurich));
    for (datum, is_kept) in [(Some(&zurich), true), (Some(&fine), false), (None, false)] {
        let new = Ca::at("alpha", datum);
        let document = extended(&old.trust(), &[&old, &new], &[&old, &new]);
        match old.trust().advance(&document) {
            Ok(trust) => assert!(is_kept && trust.in_force().datum() == Some(&zurich)),
            Err(fault) => assert!(!is_kept && fault == ListFault::OtherDatum, "{fault}"),
        }
    }
}
