use roost_wire::messages::{DocumentPart, DocumentRequest};

use super::*;

mod hostile;
mod line;

const KIND: DocumentKind = DocumentKind::REVOCATIONS;
const SECOND: Duration = Duration::from_secs(1);
const START: Time = Time::from_nanos(1_000_000_000);

fn id(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

/// A document says its number in its first eight bytes and is signed by the ninth.
fn document(number: u64, length: usize) -> Bytes {
    let mut bytes = vec![1; length.max(9)];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

fn verdict(received: &ReceivedDocument) -> DocumentVerdict {
    let ReceivedDocument { kind, bytes, from } = received.clone();
    match (bytes.get(..8).and_then(|number| number.try_into().ok()).map(u64::from_be_bytes), bytes.get(8)) {
        (Some(number), Some(1)) => DocumentVerdict::Verified { kind, number, bytes, from: Some(from) },
        _ => DocumentVerdict::Refused { kind, from },
    }
}

fn holdings(number: u64) -> Holdings {
    let mut holdings = Holdings::default();
    holdings.set(KIND, number);
    holdings
}

fn hello(number: u64) -> Hello {
    Hello { holdings: Some(holdings(number)), ..Hello::OWN }
}

fn own(number: u64, length: usize) -> DocumentVerdict {
    DocumentVerdict::Verified { kind: KIND, number, bytes: document(number, length), from: None }
}

/// A member that holds a document, with remotes that hold the same.
fn member(remotes: u8) -> Documents {
    let mut member = Documents::new(SECOND);
    member.on_verdict(START, own(5, 100), |_| Spread::Tell);
    for remote in 1..=remotes {
        member.greeting(id(remote));
        member.greeted(START, id(remote), false, &hello(5));
    }
    member
}

fn sends(member: &mut Documents) -> Vec<(NodeId, DocumentMessage)> {
    std::iter::from_fn(|| member.poll_send()).collect()
}

fn part(number: u64, bytes: Bytes) -> DocumentMessage {
    let length = bytes.len() as u32;
    DocumentMessage::Document(DocumentPart { kind: KIND, number, length, offset: 0, bytes })
}

/// The times at which a member asks for documents within a day.
fn asks(member: &mut Documents, mut now: Time, mut answer: impl FnMut(&mut Documents, Time, NodeId)) -> Vec<Time> {
    let (mut asked, end) = (Vec::new(), now + Duration::from_secs(86_400));
    loop {
        for (to, message) in sends(member) {
            if matches!(message, DocumentMessage::DocumentRequest(_)) {
                asked.push(now);
                answer(member, now, to);
            }
        }
        while let Some(received) = member.poll_event() {
            member.on_verdict(now, verdict(&received), |_| Spread::Tell);
        }
        match member.next_due() {
            Some(due) if due <= end => now = now.max(due),
            _ => return asked,
        }
        member.poll(now);
    }
}

#[test]
fn own_document_goes_to_all_as_wanted() {
    let mut member = member(3);
    sends(&mut member);
    let spread = |node| match node {
        node if node == id(1) => Spread::Push,
        node if node == id(2) => Spread::Tell,
        _ => Spread::TellLate,
    };
    member.on_verdict(START, own(6, 100), spread);
    member.poll(START);
    assert_eq!(
        sends(&mut member),
        [(id(1), part(6, document(6, 100))), (id(2), DocumentMessage::Holdings(holdings(6)))]
    );
    member.on_message(START, id(3), DocumentMessage::Holdings(holdings(6)));
    member.poll(START);
    assert_eq!(sends(&mut member), [(id(3), DocumentMessage::Holdings(holdings(6)))], "it is answered, not told late");
}

#[test]
fn silent_remote_is_told_ever_more_rarely() {
    let mut member = member(1);
    sends(&mut member);
    member.on_verdict(START, own(6, 100), |_| Spread::Push);
    let (mut now, mut told) = (START, 0);
    while let Some(due) = member.next_due().filter(|due| due.since(START) < Duration::from_secs(3_600)) {
        now = now.max(due);
        member.poll(now);
        told += sends(&mut member).len();
    }
    assert!((8..25).contains(&told), "{told}");
    member.on_message(now, id(1), DocumentMessage::Holdings(holdings(6)));
    assert_eq!(member.next_due(), None);
}

#[test]
fn long_document_is_fetched_in_parts() {
    let (mut holder, mut member) = (member(1), member(1));
    holder.on_verdict(START, own(6, 3 * MAX_DOCUMENT_PART - 7), |_| Spread::Push);
    holder.poll(START);
    let mut now = START;
    let mut parts = 0;
    while member.holdings().number(KIND) < 6 {
        now = now + SECOND / 10;
        assert!(now.since(START) < 30 * SECOND);
        for (_, message) in sends(&mut holder) {
            parts += usize::from(matches!(message, DocumentMessage::Document(_)));
            member.on_message(now, id(1), message);
        }
        while let Some(received) = member.poll_event() {
            member.on_verdict(now, verdict(&received), |_| Spread::Tell);
        }
        for (_, message) in sends(&mut member) {
            holder.on_message(now, id(1), message);
        }
        holder.poll(now);
        member.poll(now);
    }
    assert_eq!(parts, 3);
}

#[test]
fn claim_without_document_is_not_asked_for_ever() {
    let mut member = member(2);
    sends(&mut member);
    member.on_message(START, id(1), DocumentMessage::Holdings(holdings(u64::MAX)));
    let asked = asks(&mut member, START, |_, _, _| {});
    assert!((1..=6).contains(&asked.len()), "{asked:?}");
}

#[test]
fn repeated_claims_do_not_make_more_asking() {
    let mut member = member(1);
    let mut asked = 0;
    for step in 0..50_000u64 {
        let now = START + SECOND * step as u32;
        member.on_message(now, id(1), DocumentMessage::Holdings(holdings(u64::MAX - step % 2)));
        member.poll(now);
        asked +=
            sends(&mut member).iter().filter(|(_, what)| matches!(what, DocumentMessage::DocumentRequest(_))).count();
    }
    assert!(asked <= 6, "{asked}");
}

#[test]
fn lower_document_than_claimed_counts_against_its_sender() {
    let mut member = member(2);
    for _ in 0..5 {
        member.on_message(START, id(1), part(u64::MAX, document(4, 50)));
        while let Some(received) = member.poll_event() {
            member.on_verdict(START, verdict(&received), |_| Spread::Tell);
        }
    }
    assert_eq!((member.counters().refused, member.counters().dropped), (3, 2));
    assert_eq!(member.holdings().number(KIND), 5);
}

#[test]
fn bad_document_does_not_keep_out_a_good_one() {
    let mut member = member(2);
    let mut bad = document(9, 50).to_vec();
    bad[8] = 0;
    member.on_message(START, id(1), part(9, bad.into()));
    // The good one comes while the bad one is looked at.
    member.on_message(START, id(2), part(6, document(6, 50)));
    let asked = asks(&mut member, START, |member, now, of| {
        assert_eq!(of, id(2));
        member.on_message(now, of, part(6, document(6, 50)));
    });
    assert_eq!((asked.len(), member.holdings().number(KIND)), (1, 6));
}

#[test]
fn silent_source_gives_way_to_another() {
    let mut member = member(2);
    member.on_message(START, id(1), DocumentMessage::Holdings(holdings(7)));
    member.on_message(START, id(2), DocumentMessage::Holdings(holdings(6)));
    let asked = asks(&mut member, START, |member, now, of| {
        if of == id(2) {
            member.on_message(now, of, part(6, document(6, 50)));
        }
    });
    assert_eq!(member.holdings().number(KIND), 6);
    assert!(asked[1].since(START) <= 2 * SECOND);
}

#[test]
fn unknown_kinds_are_not_asked_for() {
    let mut member = member(1);
    sends(&mut member);
    let mut claims = holdings(5);
    claims.set(DocumentKind(99), 7);
    member.on_message(START, id(1), DocumentMessage::Holdings(claims));
    assert!(asks(&mut member, START, |_, _, _| {}).is_empty());
}

#[test]
fn greedy_remote_gets_a_document_a_few_times() {
    let mut member = member(1);
    member.on_verdict(START, own(6, 1_000), |_| Spread::TellLate);
    let mut sent = 0;
    for _ in 0..1_000 {
        let request = DocumentRequest { kind: KIND, number: 6, offset: 0 };
        member.on_message(START, id(1), DocumentMessage::DocumentRequest(request));
        member.poll(START);
        sent += sends(&mut member).len();
    }
    assert!(sent <= 4, "{sent}");
    assert!(member.counters().dropped > 900);
}

/// As a policy that is withdrawn soon after a long one.
#[test]
fn short_document_is_served_after_long_ones() {
    let mut member = member(1);
    let mut gets = |number, length| {
        member.on_verdict(START, own(number, length), |_| Spread::TellLate);
        let request = DocumentRequest { kind: KIND, number, offset: 0 };
        member.on_message(START, id(1), DocumentMessage::DocumentRequest(request));
        member.poll(START);
        sends(&mut member).iter().any(|(_, message)| matches!(message, DocumentMessage::Document(_)))
    };
    assert!(gets(6, 1_000) && gets(7, 1_000) && gets(8, 100));
}

#[test]
fn remote_without_documents_is_left_alone() {
    let mut member = Documents::new(SECOND);
    member.greeting(id(1));
    member.greeted(START, id(1), false, &Hello::ASSUMED);
    member.on_verdict(START, own(6, 100), |_| Spread::Push);
    assert_eq!(member.next_due(), None);
    assert!(!member.is_current(id(1), KIND));
}

/// An authority that the document of trust names may have signed the others.
#[test]
fn trust_is_fetched_before_all_others() {
    let mut member = member(1);
    sends(&mut member);
    let mut both = holdings(6);
    both.set(DocumentKind::TRUST, 1);
    member.on_message(START, id(1), DocumentMessage::Holdings(both));
    let asked = |member: &mut Documents| -> Vec<DocumentKind> {
        let request = |message| match message {
            DocumentMessage::DocumentRequest(request) => Some(request.kind),
            _ => None,
        };
        sends(member).into_iter().filter_map(|(_, message)| request(message)).collect()
    };
    assert_eq!(asked(&mut member), [DocumentKind::TRUST]);
    let bytes = document(1, 100);
    let trust = DocumentPart { kind: DocumentKind::TRUST, number: 1, length: 100, offset: 0, bytes };
    member.on_message(START, id(1), DocumentMessage::Document(trust));
    let received = member.poll_event().unwrap();
    assert_eq!((received.kind, asked(&mut member)), (DocumentKind::TRUST, vec![]));
    member.on_verdict(START, verdict(&received), |_| Spread::Tell);
    assert_eq!(asked(&mut member), [KIND]);
}

#[test]
fn refused_trust_holds_up_no_list() {
    let mut member = member(2);
    sends(&mut member);
    let (mut liar, honest) = (holdings(5), holdings(6));
    liar.set(DocumentKind::TRUST, 9);
    member.on_message(START, id(1), DocumentMessage::Holdings(liar));
    member.on_message(START, id(2), DocumentMessage::Holdings(honest));
    let list = sends(&mut member).into_iter().find_map(|(to, message)| match message {
        DocumentMessage::DocumentRequest(request) if request.kind == KIND => Some(to),
        _ => None,
    });
    assert_eq!(list, Some(id(2)));
}
