//! Publisher, hubs and subscribers as their daemons run them: late joiners, dying hubs, keys that change and
//! packets that are lost.

use crate::*;

const SECOND: Duration = Duration::from_secs(1);
const HP: u8 = 2;
const HS: u8 = 3;
const OTHER: u8 = 4;
const S: u8 = 10;
const FIRST: Ticket = Ticket(1);
const SECOND_TICKET: Ticket = Ticket(2);
const RATE: u64 = 25 * PACKETS;

/// Packets are lost on every connection, and overtake each other.
fn lossy(world: &mut StreamWorld, delay: u64, loss: u64) {
    world.network.connection =
        Connection { delay: Duration::from_millis(delay), jitter: Duration::from_millis(delay / 4), loss, repeats: 5 };
}

#[test]
fn late_subscriber_begins_with_key_frame() {
    for_seeds(4, |seed| {
        let mut world = StreamWorld::new(seed);
        world.subscribe(FIRST, &[&[P, HP, HS, S]]);
        let wait = 2500 + world.network.below(1000);
        world.passes(Duration::from_millis(wait));
        let joined = world.now;
        world.subscribe(SECOND_TICKET, &[&[P, HP, HS, S + 1]]);
        world.passes(3 * SECOND);
        let late = &world.played[&SECOND_TICKET];
        late.assert_in_order();
        let (came, number) = late.payloads[0];
        assert!(number.is_multiple_of(GROUP * PACKETS), "{number} is no key frame");
        // A hub that has the stream sends the last group of pictures at once.
        assert!(came.since(joined) < 2 * CONTROL + 5 * FRAME, "{:?}", came.since(joined));
        assert_eq!(late.missing(), Vec::<u64>::new());
        assert!(late.payloads.last().unwrap().1 + RATE / 5 > world.published());
    });
}

#[test]
fn second_request_shares_the_stream() {
    let mut world = StreamWorld::new(1);
    world.subscribe(FIRST, &[&[P, HP, HS, S]]);
    world.passes(3 * SECOND);
    world.subscribe(SECOND_TICKET, &[&[P, HP, HS, S]]);
    world.passes(CONTROL + Duration::from_millis(1));
    let begins = world.played[&SECOND_TICKET].numbers()[0];
    assert!(begins.is_multiple_of(GROUP * PACKETS), "the node itself has its beginning");
    world.unsubscribe(FIRST);
    world.passes(2 * SECOND);
    for ticket in [FIRST, SECOND_TICKET] {
        world.played[&ticket].assert_in_order();
        assert_eq!(world.played[&ticket].missing(), Vec::<u64>::new());
    }
    let last = |ticket: Ticket| world.played[&ticket].payloads.last().unwrap().1;
    assert!(last(FIRST) + RATE < last(SECOND_TICKET), "one that is over gets nothing");
    assert!(last(SECOND_TICKET) + RATE / 5 > world.published());
}

#[test]
fn dead_hub_replaced_under_new_tag() {
    for_seeds(4, |seed| {
        for dead in [HP, HS] {
            let mut world = StreamWorld::new(seed);
            lossy(&mut world, 20, 0);
            let after: &[u8] = if dead == HP { &[P, OTHER, HS, S] } else { &[P, HP, OTHER, S] };
            world.subscribe(FIRST, &[&[P, HP, HS, S], after]);
            world.passes(3 * SECOND);
            world.kill_hub(dead);
            world.passes(7 * SECOND);
            let asked = |command: &NodeCommand| matches!(command, NodeCommand::Resubscribe { ticket: FIRST, .. });
            assert!(world.commands.iter().any(|(_, host, command)| *host == S && asked(command)));
            let played = &world.played[&FIRST];
            played.assert_in_order();
            assert!(played.payloads.last().unwrap().1 + RATE / 2 > world.published(), "it does not go on");
            // The death of a hub further up may be noticed only after three seconds, and a new way takes some round trips.
            assert!(played.missing().len() < 4 * RATE as usize, "{} are missing", played.missing().len());
            assert_eq!(played.reception.lost, played.missing().len() as u64);
        }
    });
}

#[test]
fn keys_rotate_without_loss() {
    for_seeds(4, |seed| {
        let mut world = StreamWorld::new(seed);
        lossy(&mut world, 20, 0);
        world.subscribe(FIRST, &[&[P, HP, HS, S]]);
        for number in 0..4 {
            let guest = Ticket(100 + number);
            world.subscribe(guest, &[&[P, HP, HS, S + 1]]);
            world.passes(2 * SECOND);
            world.unsubscribe(guest);
            world.passes(2 * SECOND);
        }
        let rekeyed = world.commands.iter().filter(|(.., command)| matches!(command, NodeCommand::Rekey { .. }));
        assert_eq!(rekeyed.count(), 4);
        let played = &world.played[&FIRST];
        played.assert_in_order();
        assert_eq!((played.missing(), played.reception.lost), (Vec::new(), 0));
        assert!(played.payloads.last().unwrap().1 + RATE / 5 > world.published());
    });
}

/// The key of the next epoch comes over a faster way than the last packets of the one before.
#[test]
fn key_overtakes_packets_without_loss() {
    let mut world = StreamWorld::new(1);
    world.network.connection = Connection { delay: Duration::from_millis(100), ..Connection::default() };
    world.subscribe(FIRST, &[&[P, HP, HS, S]]);
    for number in 0..12 {
        let guest = Ticket(100 + number);
        world.subscribe(guest, &[&[P, HP, HS, S + 1]]);
        world.passes(Duration::from_millis(400));
        world.unsubscribe(guest);
    }
    world.passes(2 * SECOND);
    let rekeyed = world.commands.iter().filter(|(.., command)| matches!(command, NodeCommand::Rekey { .. }));
    assert!(rekeyed.count() >= 4, "an epoch follows the other as soon as it may");
    assert_eq!(world.played[&FIRST].missing(), Vec::<u64>::new());
}

#[test]
fn old_epoch_ends_on_schedule() {
    let mut world = StreamWorld::new(1);
    world.subscribe(FIRST, &[&[P, HP, S]]);
    world.passes(605 * SECOND);
    let rekeyed = world.commands.iter().filter(|(.., command)| matches!(command, NodeCommand::Rekey { .. }));
    assert_eq!(rekeyed.count(), 1);
    world.played[&FIRST].assert_in_order();
    assert_eq!(world.played[&FIRST].missing(), Vec::<u64>::new());
}

#[test]
fn excluded_subscriber_reads_no_later_epoch() {
    let mut world = StreamWorld::new(1);
    world.subscribe(FIRST, &[&[P, HP, HS, S]]);
    world.subscribe(SECOND_TICKET, &[&[P, HP, HS, S + 1]]);
    world.passes(3 * SECOND);
    let published = world.published();
    world.exclude(SECOND_TICKET);
    world.passes(5 * SECOND);
    let read = world.played[&SECOND_TICKET].payloads.last().unwrap().1;
    assert!((published..published + 2 * RATE).contains(&read), "{read} of {published}");
    assert!(world.played[&FIRST].payloads.last().unwrap().1 + RATE / 5 > world.published());
    // Packets come in vain: the node asks again, half a minute long.
    let asks = |command: &NodeCommand| matches!(command, NodeCommand::Resubscribe { ticket: SECOND_TICKET, .. });
    assert!(world.commands.iter().any(|(.., command)| asks(command)));
    assert_eq!(world.played[&SECOND_TICKET].failed, None);
    world.passes(40 * SECOND);
    assert_eq!(world.played[&SECOND_TICKET].failed, Some(SubscriptionError::Undecodable));
}

#[test]
fn lost_packets_are_repaired() {
    for_seeds(4, |seed| {
        let mut world = StreamWorld::new(seed);
        lossy(&mut world, 10, 30);
        world.subscribe(FIRST, &[&[P, HP, HS, S]]);
        world.subscribe(SECOND_TICKET, &[&[P, HP, HS, S + 1]]);
        world.passes(20 * SECOND);
        for ticket in [FIRST, SECOND_TICKET] {
            let played = &world.played[&ticket];
            played.assert_in_order();
            assert_eq!(played.reception.lost, played.missing().len() as u64);
            // Three connections lose 9 % without repair.
            assert!(played.missing().len() as u64 * 500 < world.published(), "{:?}", played.missing());
        }
        let nacked: u64 = world.hub(HS).relay().streams(world.now).map(|stream| stream.upstreams[0].nacks).sum();
        assert!(nacked > 0, "nothing was asked for");
    });
}

#[test]
fn parity_repairs_over_a_satellite() {
    for_seeds(4, |seed| {
        let mut world = StreamWorld::new(seed);
        let satellite = Connection {
            delay: Duration::from_millis(300),
            jitter: Duration::from_millis(10),
            loss: 20,
            ..Connection::default()
        };
        for (from, to) in [(HS, S), (S, HS)] {
            world.network.set_one_way(from, to, satellite);
        }
        world.subscribe(FIRST, &[&[P, HP, HS, S]]);
        world.passes(30 * SECOND);
        let played = &world.played[&FIRST];
        played.assert_in_order();
        // A packet waits 300 ms for those before it: an answer takes 600.
        let lost = played.missing().len() as u64;
        assert!(lost * 200 < world.published(), "{lost} of {} are lost, without parity a fiftieth", world.published());
    });
}

#[test]
fn hubs_key_opens_before_the_providers() {
    let mut world = StreamWorld::new(1);
    world.subscribe(FIRST, &[&[P, HP, HS, S]]);
    world.passes(2 * SECOND);
    let (right, joined) = (AnnouncedKey { epoch: Epoch(1), secret: EpochSecret::from_bytes([1; 32]) }, world.now);
    world.subscribe_foretold(SECOND_TICKET, &[P, HP, HS, S + 1], right, SECOND);
    world.passes(4 * SECOND);
    let played = &world.played[&SECOND_TICKET];
    played.assert_in_order();
    assert_eq!(played.missing(), Vec::<u64>::new());
    assert!(played.payloads[0].0.since(joined) < SECOND, "it waits for its provider");
}

#[test]
fn wrong_hub_key_is_replaced() {
    let mut world = StreamWorld::new(1);
    world.subscribe(FIRST, &[&[P, HP, HS, S]]);
    world.passes(2 * SECOND);
    let (wrong, joined) = (AnnouncedKey { epoch: Epoch(1), secret: EpochSecret::from_bytes([66; 32]) }, world.now);
    world.subscribe_foretold(SECOND_TICKET, &[P, HP, HS, S + 1], wrong, SECOND);
    world.passes(4 * SECOND);
    let played = &world.played[&SECOND_TICKET];
    played.assert_in_order();
    assert_eq!(played.missing(), Vec::<u64>::new(), "packets that came before the right key waited for it");
    assert!(played.payloads[0].0.since(joined) >= SECOND);
}

/// Requests come and go, hubs die and members leave, over connections that lose packets: each application
/// gets each payload once and in order, and none after its request has ended.
#[test]
fn random_changes_keep_streams_in_order() {
    for_seeds(8, |seed| {
        let mut world = StreamWorld::new(seed);
        lossy(&mut world, 15, 20);
        let (mut running, mut ended, mut next) = (Vec::new(), Vec::new(), 1);
        let mut hubs = vec![HP, HS, OTHER, 5, 6];
        for _ in 0..40 {
            let choice = world.network.below(10);
            let pick = world.network.below(1 << 30) as usize;
            match choice {
                0..=3 if running.len() < 8 => {
                    let (ticket, host) = (Ticket(next), S + (next % 4) as u8);
                    let (one, other) = (hubs[pick % hubs.len()], hubs[(pick + 1) % hubs.len()]);
                    world.subscribe(ticket, &[&[P, one, host], &[P, other, host], &[P, one, host]]);
                    running.push(ticket);
                    next += 1;
                }
                4..=5 if !running.is_empty() => {
                    let ticket = running.swap_remove(pick % running.len());
                    world.unsubscribe(ticket);
                    ended.push((ticket, world.played[&ticket].payloads.len()));
                }
                6 if hubs.len() > 3 => {
                    let dead = hubs.remove(pick % hubs.len());
                    world.kill_hub(dead);
                }
                _ => {}
            }
            let pause = 100 + world.network.below(1500);
            world.passes(Duration::from_millis(pause));
        }
        for (ticket, had) in ended {
            assert_eq!(world.played[&ticket].payloads.len(), had, "{ticket:?} goes on after its end");
        }
        world.played.values().for_each(|played| played.assert_in_order());
        assert!(world.played.values().any(|played| played.payloads.len() > RATE as usize));
    });
}
