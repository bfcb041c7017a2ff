//! Members that pass documents on, over connections that break.

use std::collections::BTreeMap;

use proptest::prelude::*;
use roost_wire::messages::Message;

use super::*;

/// Members in a line or a ring, with messages that take a while, and connections that break.
struct Line {
    members: Vec<Documents>,
    links: Vec<[usize; 2]>,
    mail: BTreeMap<(Time, usize), (usize, usize, DocumentMessage)>,
    next: usize,
    now: Time,
    messages: usize,
}

impl Line {
    fn new(count: usize) -> Self {
        let members = (0..count).map(|_| Documents::new(SECOND)).collect();
        let (mail, now) = (BTreeMap::new(), START);
        Self { members, links: Vec::new(), mail, next: 0, now, messages: 0 }
    }

    fn connect(&mut self, a: usize, b: usize) {
        if a == b || self.links.contains(&[a, b]) || self.links.contains(&[b, a]) {
            return;
        }
        self.links.push([a, b]);
        let greetings = [a, b].map(|end| self.members[end].greeting(id((if end == a { b } else { a }) as u8)));
        for (end, far, holdings) in [(a, b, &greetings[1]), (b, a, &greetings[0])] {
            let hello = Hello { holdings: holdings.clone(), ..Hello::OWN };
            self.members[end].greeted(self.now, id(far as u8), true, &hello);
        }
        self.deliver();
    }

    fn cut(&mut self, link: usize) {
        if self.links.is_empty() {
            return;
        }
        let [a, b] = self.links.swap_remove(link % self.links.len());
        self.mail.retain(|_, (from, to, _)| ![(a, b), (b, a)].contains(&(*from, *to)));
        self.members[a].disconnected(self.now, id(b as u8));
        self.members[b].disconnected(self.now, id(a as u8));
        self.deliver();
    }

    fn put(&mut self, at: usize, number: u64, length: usize) {
        self.members[at].on_verdict(self.now, own(number, length), |_| Spread::Push);
        self.deliver();
    }

    fn deliver(&mut self) {
        for from in 0..self.members.len() {
            while let Some(received) = self.members[from].poll_event() {
                let odd = |node: NodeId| if node.as_bytes()[0].is_multiple_of(2) { Spread::Tell } else { Spread::Push };
                self.members[from].on_verdict(self.now, verdict(&received), odd);
            }
            for (to, message) in sends(&mut self.members[from]) {
                self.next += 1;
                self.messages += 1;
                assert!(Message::from(message.clone()).encode().len() < 64 * 1024);
                let at = self.now + SECOND / 10;
                self.mail.insert((at, self.next), (from, to.as_bytes()[0] as usize, message));
            }
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let mail = self.mail.first_key_value().map(|((at, _), _)| *at);
            let due = self.members.iter().filter_map(Documents::next_due).min();
            let Some(next) = mail.into_iter().chain(due).min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.mail.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (from, to, message) = entry.remove();
                self.members[to].on_message(self.now, id(from as u8), message);
            }
            let now = self.now;
            self.members.iter_mut().for_each(|member| member.poll(now));
            self.deliver();
        }
        self.now = end;
    }
}

#[derive(Clone, Debug)]
enum Step {
    Connect(usize, usize),
    Cut(usize),
    Put(usize, u64, usize),
    Run(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6usize, 0..6usize).prop_map(|(a, b)| Step::Connect(a, b)),
        any::<usize>().prop_map(Step::Cut),
        (0..6usize, 1..20u64, 9..100_000usize).prop_map(|(at, number, length)| Step::Put(at, number, length)),
        (1..5_000u64).prop_map(Step::Run),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_that_are_connected_agree_in_the_end(steps in prop::collection::vec(step(), 0..40)) {
        let mut line = Line::new(6);
        for step in steps {
            match step {
                Step::Connect(a, b) => line.connect(a, b),
                Step::Cut(link) => line.cut(link),
                // A number means one document everywhere.
                Step::Put(at, number, length) => line.put(at, number, length / 20 * number as usize % 100_000 + 9),
                Step::Run(ms) => line.run(Duration::from_millis(ms)),
            }
        }
        (1..6).for_each(|member| line.connect(member - 1, member));
        line.run(Duration::from_secs(900));
        let newest = line.members.iter().map(|member| member.holdings().number(KIND)).max();
        for member in &line.members {
            prop_assert_eq!(Some(member.holdings().number(KIND)), newest);
            prop_assert_eq!(member.counters().refused, 0);
        }
        line.messages = 0;
        line.run(Duration::from_secs(86_400));
        prop_assert_eq!(line.messages, 0, "who agrees is silent");
    }

    #[test]
    fn nothing_that_comes_breaks_the_part(
        said in prop::collection::vec((0..4u8, 0..4u8, any::<u64>(), 0..200_000u32, 0..100u32, 1..40usize), 0..80)
    ) {
        let mut member = member(3);
        let mut now = START;
        for (from, sort, number, length, offset, bytes) in said {
            let message = match sort {
                0 => DocumentMessage::Holdings(holdings(number)),
                1 => DocumentMessage::DocumentRequest(DocumentRequest { kind: KIND, number, offset }),
                _ => DocumentMessage::Document(DocumentPart {
                    kind: KIND,
                    number,
                    length: length.max(offset + bytes as u32),
                    offset,
                    bytes: vec![0; bytes].into(),
                }),
            };
            member.on_message(now, id(from), message);
            while let Some(received) = member.poll_event() {
                member.on_verdict(now, verdict(&received), |_| Spread::Push);
            }
            now = now + SECOND;
            member.poll(now);
            prop_assert!(sends(&mut member).len() < 16);
            prop_assert_eq!(member.holdings().number(KIND), 5);
        }
    }
}
