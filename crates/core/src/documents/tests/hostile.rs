//! Members that say what is not so, or say it slowly, and good ones that are many.

use super::*;

const LONG: usize = 3 * MAX_DOCUMENT_PART - 7;

fn part_at(document: &Bytes, number: u64, offset: usize, length: usize) -> DocumentMessage {
    let (whole, offset_sent) = (document.len() as u32, offset as u32);
    let bytes = document.slice(offset..document.len().min(offset + length));
    DocumentMessage::Document(DocumentPart { kind: KIND, number, length: whole, offset: offset_sent, bytes })
}

/// Runs for some seconds in steps of a tenth. `answer` gets each request, with the remote that it goes to.
fn run(
    member: &mut Documents,
    seconds: u32,
    mut step: impl FnMut(&mut Documents, Time),
    mut answer: impl FnMut(&mut Documents, Time, NodeId, DocumentRequest),
) {
    for tenth in 0..seconds * 10 {
        let now = START + SECOND * tenth / 10;
        step(member, now);
        member.poll(now);
        for (to, message) in sends(member) {
            if let DocumentMessage::DocumentRequest(request) = message {
                answer(member, now, to, request);
            }
        }
        while let Some(received) = member.poll_event() {
            member.on_verdict(now, verdict(&received), |_| Spread::Tell);
        }
    }
}

/// Remote 2 has the document 6. `liar` answers in the place of remote 1, which claims more and more.
fn arrives_beside(seconds: u32, mut liar: impl FnMut(&mut Documents, Time, Option<DocumentRequest>)) {
    let (mut member, good) = (member(2), document(6, LONG));
    sends(&mut member);
    let asked = std::cell::RefCell::new(None);
    let mut step = |member: &mut Documents, now: Time| {
        let claim = u64::MAX - 1_000_000 + now.since(START).as_secs();
        member.on_message(now, id(1), DocumentMessage::Holdings(holdings(claim)));
        member.on_message(now, id(2), DocumentMessage::Holdings(holdings(6)));
        liar(member, now, asked.take());
    };
    run(&mut member, seconds, &mut step, |member, now, of, request| {
        if of == id(2) {
            let offset = request.offset as usize;
            member.on_message(now, of, part_at(&good, 6, offset, MAX_DOCUMENT_PART));
        } else {
            asked.replace(Some(request));
        }
    });
    assert_eq!(member.holdings().number(KIND), 6);
}

#[test]
fn silent_claims_do_not_keep_a_long_document_away() {
    arrives_beside(10, |_, _, _| {});
}

#[test]
fn dripped_bytes_do_not_keep_it_away() {
    let junk = Bytes::from(vec![7; 4 << 20]);
    let mut offset = 0;
    arrives_beside(10, move |member, now, _| {
        let bytes = part_at(&junk, u64::MAX, offset, 1);
        offset += 1;
        member.on_message(now, id(1), bytes);
    });
}

#[test]
fn slow_parts_do_not_keep_it_away() {
    let junk = Bytes::from(vec![7; 4 << 20]);
    let mut due = None;
    arrives_beside(40, move |member, now, asked| {
        if let Some(request) = asked {
            due = Some((now + 20 * SECOND, request));
            if request.offset == 0 {
                due = Some((now, request));
            }
        }
        if let Some((_, request)) = due.take_if(|(at, _)| *at <= now) {
            member.on_message(now, id(1), part_at(&junk, request.number, request.offset as usize, MAX_DOCUMENT_PART));
        }
    });
}

#[test]
fn junk_leaves_what_is_under_way() {
    let (mut member, good) = (member(2), document(6, LONG));
    sends(&mut member);
    member.on_message(START, id(2), DocumentMessage::Holdings(holdings(6)));
    let mut requests = 0;
    let mut step = |_: &mut Documents, _: Time| {};
    run(&mut member, 1, &mut step, |member, now, of, request| {
        requests += 1;
        assert_eq!(of, id(2));
        member.on_message(now, id(1), part(u64::MAX, Bytes::from_static(&[0; 40])));
        member.on_message(now, of, part_at(&good, 6, request.offset as usize, MAX_DOCUMENT_PART));
        member.on_message(now, id(1), part(u64::MAX, Bytes::from_static(&[0; 40])));
    });
    assert_eq!((member.holdings().number(KIND), requests), (6, 3));
}

#[test]
fn slow_remote_without_rival_goes_on() {
    let (mut member, good) = (member(2), document(6, 8 * MAX_DOCUMENT_PART));
    sends(&mut member);
    member.on_message(START, id(2), DocumentMessage::Holdings(holdings(6)));
    let due = std::cell::Cell::new(None);
    let step = |member: &mut Documents, now: Time| {
        if let Some((at, offset)) = due.get().filter(|(at, _)| *at <= now) {
            let _: Time = at;
            due.set(None);
            member.on_message(now, id(2), part_at(&good, 6, offset, MAX_DOCUMENT_PART));
        }
    };
    run(&mut member, 600, step, |_, now, _, request| {
        let wait = if request.offset == 0 { SECOND } else { 40 * SECOND };
        due.set(Some((now + wait, request.offset as usize)));
    });
    assert_eq!(member.holdings().number(KIND), 6);
}

#[test]
fn remote_in_vain_is_asked_for_a_newer_one() {
    let mut member = member(1);
    sends(&mut member);
    member.on_message(START, id(1), DocumentMessage::Holdings(holdings(7)));
    asks(&mut member, START, |_, _, _| {});
    let later = START + Duration::from_secs(90_000);
    member.on_message(later, id(1), DocumentMessage::Holdings(holdings(8)));
    let asked = asks(&mut member, later, |member, now, of| member.on_message(now, of, part(8, document(8, 50))));
    assert_eq!((asked.len(), member.holdings().number(KIND)), (1, 8));
}

#[test]
fn many_late_first_parts_end_in_no_panic() {
    let (mut member, junk) = (member(1), Bytes::from(vec![7; 4 << 20]));
    sends(&mut member);
    for step in 0..200 {
        let now = START + 70 * SECOND * step;
        member.on_message(now, id(1), part_at(&junk, u64::MAX, 0, MAX_DOCUMENT_PART));
        member.poll(now);
    }
}

#[test]
fn pushes_leave_at_the_pace_of_requests() {
    let mut member = member(200);
    sends(&mut member);
    member.on_verdict(START, own(6, MAX_DOCUMENT_PART), |_| Spread::Push);
    member.poll(START);
    assert!(sends(&mut member).len() <= 4);
    let mut now = START;
    let mut sent = 4;
    while let Some(due) = member.next_due().filter(|due| due.since(START) < SECOND) {
        now = now.max(due);
        member.poll(now);
        sent += sends(&mut member).iter().filter(|(_, what)| matches!(what, DocumentMessage::Document(_))).count();
    }
    assert!(sent >= 200, "{sent}");
    let needed = transfers::BYTE * (196 * MAX_DOCUMENT_PART) as u32;
    assert!(now.since(START) >= needed, "{:?}", now.since(START));
}

#[test]
fn new_connections_do_not_clear_what_was_served() {
    let mut member = member(1);
    member.on_verdict(START, own(6, 1_000), |_| Spread::TellLate);
    let mut sent = 0;
    for _ in 0..100 {
        member.disconnected(START, id(1));
        member.greeting(id(1));
        member.greeted(START, id(1), false, &hello(6));
        let request = DocumentRequest { kind: KIND, number: 6, offset: 0 };
        member.on_message(START, id(1), DocumentMessage::DocumentRequest(request));
        member.poll(START);
        sent += sends(&mut member).iter().filter(|(_, what)| matches!(what, DocumentMessage::Document(_))).count();
    }
    assert!(sent <= 4, "{sent}");
}

#[test]
fn known_and_unread_documents_are_not_held() {
    let mut member = member(1);
    for number in 0..9 {
        member.on_message(START, id(1), part(9, document(9, 50)));
        while let Some(ReceivedDocument { kind, from, .. }) = member.poll_event() {
            member.on_verdict(START, DocumentVerdict::Unread { kind, from }, |_| Spread::Push);
        }
        assert_eq!((member.counters().received, member.counters().refused), (number + 1, 0));
    }
    member.on_message(START, id(1), part(9, document(9, 50)));
    let Some(ReceivedDocument { kind, from, .. }) = member.poll_event() else { panic!("nothing to look at") };
    member.on_verdict(START, DocumentVerdict::Known { kind, from, number: 9 }, |_| Spread::Push);
    assert_eq!(member.holdings().number(KIND), 5);
}
