//! The rate at which each remote may ask: requests, lookups, watches and searches of other hubs, each
//! at the price of the records that are looked at for it. A remote that asks more is told when to come again.

use std::time::Duration;

use roost_wire::messages::{Decline, DirectoryMessage, Message, Reason, RequestMessage, RequestMode};

use super::HubLimit;
use super::core::HubCore;
use super::sender::Sender;

/// So many records are looked at for the price of one question more.
const RECORDS: usize = 64;

/// The price of a request beside: others are asked for it.
const REQUEST: usize = 16;

/// So much time's worth may be asked at once.
const BURST: Duration = Duration::from_secs(2);

/// Another hub asks for all its nodes.
const HUB: u32 = 16;

/// The shortest wait that is told.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);

impl HubCore {
    /// The price of a message that makes the hub search, beside the search.
    pub(super) fn price(message: &Message) -> Option<usize> {
        match message {
            Message::Request(RequestMessage::Request(request)) if request.route.is_some() => Some(1),
            Message::Request(RequestMessage::Request(request)) if request.spec.mode != RequestMode::Lookup => {
                Some(REQUEST)
            }
            Message::Request(RequestMessage::Request(_))
            | Message::Directory(DirectoryMessage::Watch(_))
            | Message::Directory(DirectoryMessage::HubLookup(_)) => Some(1),
            _ => None,
        }
    }

    /// True if a remote's message is to be heard: all but questions that are too many, which are refused.
    pub(super) fn admit_message(&mut self, from: Sender, message: &Message) -> bool {
        let now = self.now;
        self.examined = 0;
        let ahead = self.remotes.get_mut(from.node).map_or(Duration::ZERO, |node| node.debt.tolled.since(now));
        if ahead <= BURST || Self::price(message).is_none() {
            return true;
        }
        self.over_limit(from.node, HubLimit::QueryRate);
        self.refuse_question(from, message, ahead.saturating_sub(BURST));
        false
    }

    fn refuse_question(&mut self, from: Sender, message: &Message, wait: Duration) {
        let (id, requester) = match message {
            Message::Request(RequestMessage::Request(request)) => {
                let route = request.route.as_ref().filter(|route| !route.reply_to.is_empty());
                if request.route.is_none() {
                    self.report_declined(from.connection, request, Reason::TooMany);
                }
                (request.id, route.map(|route| route.requester))
            }
            Message::Directory(DirectoryMessage::Watch(watch)) if !from.role.is_hub() => (watch.id, None),
            // A hub that is not answered asks others, and again.
            _ => return,
        };
        let retry_after = wait.max(SHORTEST_RETRY).as_millis();
        let retry_after_ms = Some(u32::try_from(retry_after).unwrap_or(u32::MAX));
        let decline = Decline { retry_after_ms, requester, ..Decline::new(id, Reason::TooMany) };
        self.send_answer(from.connection, RequestMessage::Decline(decline));
    }

    /// Charges a remote for what was looked at for a question.
    pub(super) fn charge(&mut self, from: Sender, price: usize) {
        let now = self.now;
        let price = u32::try_from(price + self.examined / RECORDS).unwrap_or(u32::MAX);
        let per_second = self.config.limits.lookups_per_second.max(1);
        let Some(remote) = self.remotes.get_mut(from.node) else { return };
        let per_second = if remote.role.is_hub() { per_second.saturating_mul(HUB) } else { per_second };
        remote.debt.tolled = remote.debt.tolled.max(now) + Duration::from_secs(1) * price / per_second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::testing::*;

    fn bench(per_second: u32) -> Bench {
        Bench::configured(|config| config.limits.lookups_per_second = per_second)
    }

    fn lookup(id: u32, area: Area) -> Message {
        Message::Request(RequestMessage::Request(request(id, RequestMode::Lookup).with(|spec| spec.area = area)))
    }

    /// Counts the lookups of so many that are answered, and gives the last wait that was told.
    fn answered(bench: &mut Bench, connection: ConnectionId, area: Area, count: u32) -> (u32, Option<u32>) {
        let (mut found, mut wait) = (0, None);
        for id in 0..count {
            match &bench.say(connection, lookup(id + 1, area))[..] {
                [(to, Message::Directory(DirectoryMessage::LookupResult(_)))] => found += u32::from(*to == connection),
                [
                    (
                        to,
                        Message::Request(RequestMessage::Decline(Decline {
                            reason: Reason::TooMany,
                            retry_after_ms,
                            ..
                        })),
                    ),
                ] if *to == connection => {
                    wait = *retry_after_ms;
                }
                other => panic!("{other:?}"),
            }
        }
        (found, wait)
    }

    #[test]
    fn burst_passes_and_then_the_rate() {
        let mut bench = bench(100);
        let area = Area::Exact(Cell::new(0, 0));
        let (requester, other) = (bench.up(1, Role::Node), bench.up(2, Role::Node));
        let (found, wait) = answered(&mut bench, requester, area, 1_000);
        assert!((200..=202).contains(&found) && wait.is_some_and(|wait| wait >= 10), "{found}, {wait:?}");
        assert_eq!(answered(&mut bench, other, area, 100), (100, None));
        bench.wait(Duration::from_secs(1));
        let (found, _) = answered(&mut bench, requester, area, 1_000);
        assert!((99..=102).contains(&found), "{found}");
    }

    /// Twenty times a second, with questions each time.
    #[test]
    fn coming_anew_gives_no_more() {
        let mut bench = bench(100);
        let area = Area::Exact(Cell::new(0, 0));
        let stays = bench.up(1, Role::Node);
        let mut found = [0, 0];
        for _ in 0..200 {
            found[0] += answered(&mut bench, stays, area, 300).0;
            let comes = bench.up(2, Role::Node);
            found[1] += answered(&mut bench, comes, area, 300).0;
            bench.down(comes);
            bench.wait(Duration::from_millis(50));
        }
        assert!(found[1] <= found[0] + 5, "{found:?}");
        assert!((1_150..=1_210).contains(&found[0]), "{found:?}");
    }

    /// A hub that passes on more than it may is told so, and asks elsewhere.
    #[test]
    fn requests_of_hubs_have_their_price() {
        let mut bench = bench(1);
        let hub = bench.up(100, Role::SuperNode);
        let mut refused = 0;
        for id in 0..200 {
            let said = bench.ask(hub, carried(id));
            let is_refused = |message: &Message| matches!(message, Message::Request(RequestMessage::Decline(Decline { reason: Reason::TooMany, requester: Some(of), .. })) if *of == node(50));
            refused += said.iter().filter(|(_, message)| is_refused(message)).count();
        }
        assert!((160..=170).contains(&refused), "{refused}: sixteen a second for two seconds pass");
    }

    #[test]
    fn wide_lookups_cost_what_they_examine() {
        let mut bench = bench(100);
        for number in 2..=190 {
            let connection = bench.up(number, Role::Node);
            bench.say(connection, RegistrationMessage::Publish(Record { cell: Cell::new(7, 7), ..record(number) }));
        }
        let requester = bench.up(1, Role::Node);
        let (found, _) = answered(&mut bench, requester, Area::Exact(Cell::new(7, 7)), 1_000);
        assert!((60..=70).contains(&found), "{found}: of 189 records each");
    }
}
