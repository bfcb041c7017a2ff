use crate::hub::testing::*;
use crate::hub::{HubKind, HubLimit};

const MINUTE: Duration = Duration::from_secs(60);

fn file(from: u8, to: u8, number: u8, bytes: usize) -> SealedFile {
    let (id, sealed) = (DeliveryId::from_bytes([number; 8]), vec![number; bytes].into());
    SealedFile { from: node(from), to: node(to), id, left_s: 3_600, sealed }
}

fn status(file: &SealedFile, state: MailboxState) -> MailboxMessage {
    MailboxMessage::MailboxStatus(MailboxStatus { from: file.from, to: file.to, id: file.id, state })
}

/// The files among the messages, and where each went.
fn files(sent: &[(ConnectionId, Message)]) -> Vec<(ConnectionId, SealedFile)> {
    let file = |(connection, message): &(ConnectionId, Message)| match message {
        Message::Mailbox(MailboxMessage::SealedFile(file)) => Some((*connection, file.clone())),
        _ => None,
    };
    sent.iter().filter_map(file).collect()
}

fn states(sent: &[(ConnectionId, Message)]) -> Vec<(ConnectionId, MailboxState)> {
    let state = |(connection, message): &(ConnectionId, Message)| match message {
        Message::Mailbox(MailboxMessage::MailboxStatus(status)) => Some((*connection, status.state)),
        _ => None,
    };
    sent.iter().filter_map(state).collect()
}

/// A remote of this version comes, and what it is given.
fn greeted(bench: &mut Bench, number: u8, role: Role) -> (ConnectionId, Vec<(ConnectionId, Message)>) {
    let connection = bench.up(number, role);
    let sent = bench.say(connection, ProbeMessage::Hello(Hello::OWN));
    (connection, sent)
}

fn leave(bench: &mut Bench, connection: ConnectionId, file: &SealedFile) -> Vec<(ConnectionId, Message)> {
    bench.say(connection, MailboxMessage::SealedFile(file.clone()))
}

#[test]
fn file_waits_until_receiver_comes() {
    let mut bench = Bench::new();
    let (sender, _) = greeted(&mut bench, 1, Role::Node);
    let file = file(1, 2, 7, 100);
    assert_eq!(states(&leave(&mut bench, sender, &file)), [(sender, MailboxState::Kept)]);
    bench.down(sender);
    bench.wait(10 * MINUTE);
    let (receiver, sent) = greeted(&mut bench, 2, Role::Node);
    let given = files(&sent);
    assert_eq!(given.len(), 1);
    assert_eq!((given[0].0, &given[0].1.sealed, given[0].1.left_s), (receiver, &file.sealed, 3_000));
    bench.say(receiver, status(&file, MailboxState::Ended));
    assert_eq!(bench.hub.mailbox.load(), (0, 0));
    assert!(files(&bench.wait(10 * MINUTE)).is_empty());
}

#[test]
fn unanswered_file_comes_again() {
    let mut bench = Bench::new();
    let (sender, _) = greeted(&mut bench, 1, Role::Node);
    let (receiver, _) = greeted(&mut bench, 2, Role::Node);
    assert_eq!(files(&leave(&mut bench, sender, &file(1, 2, 7, 100))).len(), 1);
    let keep_alive = |bench: &mut Bench| {
        let mut sent = Vec::new();
        for _ in 0..7 {
            sent.extend(bench.wait(Duration::from_secs(10)));
            bench.say(receiver, ProbeMessage::Ping(0));
        }
        files(&sent).len()
    };
    assert_eq!(keep_alive(&mut bench), 1);
    assert_eq!(keep_alive(&mut bench), 1);
}

#[test]
fn refused_file_holds_up_no_other() {
    let mut bench = Bench::new();
    let (sender, _) = greeted(&mut bench, 1, Role::Node);
    let both = [file(1, 2, 7, 100), file(1, 2, 8, 100)];
    both.iter().for_each(|file| drop(leave(&mut bench, sender, file)));
    let (receiver, sent) = greeted(&mut bench, 2, Role::Node);
    assert_eq!(files(&sent)[0].1.id, both[0].id);
    bench.say(receiver, status(&both[0], MailboxState::Later));
    assert_eq!(files(&bench.wait(Duration::from_secs(6)))[0].1.id, both[1].id);
}

#[test]
fn nothing_is_given_after_its_end() {
    let mut bench = Bench::new();
    let (sender, _) = greeted(&mut bench, 1, Role::Node);
    leave(&mut bench, sender, &file(1, 2, 7, 100));
    bench.wait(60 * MINUTE);
    assert!(files(&greeted(&mut bench, 2, Role::Node).1).is_empty());
    assert_eq!((bench.hub.mailbox.load(), bench.hub.counters().mailbox_expired), ((0, 0), 1));
    let over = SealedFile { left_s: 0, ..file(1, 2, 8, 100) };
    let (sender, _) = greeted(&mut bench, 1, Role::Node);
    assert_eq!(states(&leave(&mut bench, sender, &over)), [(sender, MailboxState::Full)]);
}

#[test]
fn earlier_receiver_and_server_are_left_alone() {
    let mut bench = Bench::new();
    let (sender, _) = greeted(&mut bench, 1, Role::Node);
    leave(&mut bench, sender, &file(1, 2, 7, 100));
    let receiver = bench.up(2, Role::Node);
    let older = Hello { capabilities: Capabilities::DOCUMENTS, ..Hello::OWN };
    assert!(files(&bench.say(receiver, ProbeMessage::Hello(older))).is_empty());
    let mut server = Bench::server(|_| {});
    let sender = server.up(1, Role::Node);
    assert!(states(&leave(&mut server, sender, &file(1, 2, 7, 100))).is_empty());
    assert_eq!((server.hub.mailbox.load(), server.hub.core.config.kind), ((0, 0), HubKind::Server));
}

#[test]
fn nobody_speaks_for_another() {
    let mut bench = Bench::new();
    let (sender, _) = greeted(&mut bench, 1, Role::Node);
    let (other, _) = greeted(&mut bench, 3, Role::Node);
    let held = file(1, 2, 7, 100);
    assert!(states(&leave(&mut bench, other, &held)).is_empty());
    leave(&mut bench, sender, &held);
    bench.say(other, status(&held, MailboxState::Ended));
    assert_eq!(bench.hub.mailbox.load(), (1, 100));
    // A hub cannot replace what the sender itself has left.
    let (hub, _) = greeted(&mut bench, 100, Role::SuperNode);
    leave(&mut bench, hub, &file(1, 2, 7, 200));
    assert_eq!(bench.hub.mailbox.load(), (1, 100));
    bench.say(sender, status(&held, MailboxState::Ended));
    assert_eq!(bench.hub.mailbox.load(), (0, 0));
}

/// Leaves as many files as are taken, 90 in each minute, for receivers from `first` on.
fn fill(bench: &mut Bench, sender: u8, first: u8) -> usize {
    let mut taken = 0;
    for number in 0..=90 {
        let connection = bench.up(sender, Role::Node);
        let sent = leave(bench, connection, &file(sender, first + number % 3, number, MAX_SEALED_FILE_BYTES));
        taken += states(&sent).iter().filter(|(to, state)| (*to, *state) == (connection, MailboxState::Kept)).count();
        bench.down(connection);
    }
    taken
}

#[test]
fn sender_has_quota() {
    let mut bench = Bench::new();
    assert_eq!(fill(&mut bench, 1, 201), super::MAX_BYTES_OF_SENDER / MAX_SEALED_FILE_BYTES);
    assert!(bench.hub.counters().over_limit(HubLimit::Mailbox) > 0);
}

#[test]
fn who_fills_mailbox_loses_first() {
    let mut bench = Bench::new();
    for sender in 1..=10 {
        fill(&mut bench, sender, 100 + 3 * sender);
        bench.wait(MINUTE);
    }
    let (files_before, bytes) = bench.hub.mailbox.load();
    assert!(bytes <= super::MAX_BYTES && bytes > super::MAX_BYTES - MAX_SEALED_FILE_BYTES, "{bytes}");
    let (newcomer, _) = greeted(&mut bench, 60, Role::Node);
    let kept = states(&leave(&mut bench, newcomer, &file(60, 61, 1, MAX_SEALED_FILE_BYTES)));
    assert!(kept.contains(&(newcomer, MailboxState::Kept)), "{kept:?}");
    assert_eq!(bench.hub.mailbox.load().0, files_before);
    assert_eq!(files(&greeted(&mut bench, 61, Role::Node).1).len(), 1);
}

#[test]
fn receivers_home_gets_file() {
    let mut bench = Bench::new();
    let (home, _) = greeted(&mut bench, 100, Role::SuperNode);
    let (sender, _) = greeted(&mut bench, 1, Role::Node);
    let file = file(1, 2, 7, 100);
    let sent = leave(&mut bench, sender, &file);
    assert!(sent.contains(&(home, MailboxMessage::FilesWait(node(2)).into())), "{sent:?}");
    let handed = files(&bench.say(home, MailboxMessage::NodeIsHere(node(2))));
    assert_eq!((handed.len(), handed[0].0), (1, home));
    assert_eq!(bench.hub.mailbox.load().0, 1, "until the home has it");
    bench.say(home, status(&file, MailboxState::Kept));
    assert_eq!((bench.hub.mailbox.load().0, bench.hub.counters().mailbox_handed), (0, 1));
}

#[test]
fn file_follows_new_home() {
    let mut bench = Bench::new();
    let (sender, _) = greeted(&mut bench, 1, Role::Node);
    leave(&mut bench, sender, &file(1, 2, 7, 100));
    let (home, sent) = greeted(&mut bench, 100, Role::SuperNode);
    assert!(sent.contains(&(home, MailboxMessage::FilesWait(node(2)).into())), "{sent:?}");
    let claim = HierarchyMessage::Claim { node: node(2), version: version(2) };
    assert_eq!(files(&bench.say(home, claim)).len(), 1);
}

#[test]
fn home_says_that_node_is_here() {
    let mut bench = Bench::new();
    let (hub, _) = greeted(&mut bench, 100, Role::SuperNode);
    assert!(bench.say(hub, MailboxMessage::FilesWait(node(2))).is_empty());
    let receiver = bench.provider(2);
    bench.down(receiver);
    let sent = bench.say(hub, MailboxMessage::FilesWait(node(2)));
    assert_eq!(sent, [(hub, MailboxMessage::NodeIsHere(node(2)).into())]);
}
