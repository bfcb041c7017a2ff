//! Two providers alike, and a requester that loses sight of one or both: one of them serves, and a call runs once.

use roost_wire::object::digest;

use crate::out_of_sight::*;
use crate::*;

/// A provider and a requester that are connected, and another provider at the provider's home.
struct Trio {
    pair: ConnectedPair,
    other: HostId,
}

impl Trio {
    fn new(seed: u64, case: PairCase) -> Self {
        let mut pair = ConnectedPair::new(seed, case);
        let Some(home) = pair.world.home(pair.provider) else { panic!("seed {seed}: no home") };
        let other = pair.world.node((1, 1), &[], &[home]);
        pair.world.hosts[other.0].object_bytes = Some(case.object_bytes);
        let offers = services().into_iter().map(Offer::new);
        let services = offers.fold(ServiceSet::EMPTY, |all, offer| all.with_offer(offer));
        pair.world.run(5 * SECOND);
        pair.world.command(other, NodeCommand::Reconfigure { services, max_streams: 1, uplink_kbps: None });
        pair.world.run(5 * SECOND);
        Self { pair, other }
    }

    fn runs(&self) -> usize {
        self.pair.runs() + self.pair.runs_at(self.other)
    }

    /// The requester loses sight of the first provider, and perhaps of the other one.
    fn lose_sight(&mut self, of_both: bool) {
        self.pair.lose_sight();
        if of_both {
            self.pair.world.cut(self.other, self.pair.requester);
        }
    }

    /// Opens the source of a call that has begun, at whichever provider.
    fn answer_call(&mut self) {
        for host in [self.pair.provider, self.other] {
            let is_call = |(_, service, _): &&(SessionId, Service, NodeId)| service.is_call();
            let calls: Vec<_> = self.pair.world.hosts[host.0].opened.iter().filter(is_call).copied().collect();
            for (session, ..) in calls {
                let bytes = object(20_000);
                let opened = SourceOutput::Object { digest: digest(&bytes), bytes, format: "synthetic".to_owned() };
                self.pair.world.command(host, NodeCommand::SourceOpened { session, opened });
            }
        }
    }
}

#[test]
fn equal_providers_run_once() {
    for_seeds(60, |seed| {
        let object_bytes = [800, 200_000, 2_000_000][seed as usize % 3];
        let case = PairCase { shares_hubs: false, hubs: 2, idle: SECOND, object_bytes, ..PairCase::of_seed(seed) };
        let service = services()[seed as usize / 3 % 5];
        let mut trio = Trio::new(seed, PairCase { settles: 5 * SECOND, ..case });
        let mut random = SplitMix64::new(seed);
        let (is_amid, of_both) = (random.below(2) == 0 && object_bytes > 200_000, random.below(2) == 0);
        let ticket = if is_amid { Some(trio.pair.ask(service)) } else { None };
        ticket.into_iter().for_each(|ticket| trio.pair.run_until_it_comes(ticket));
        trio.lose_sight(of_both);
        let ticket = ticket.unwrap_or_else(|| trio.pair.ask(service));
        let ending = trio.pair.world.outcome(trio.pair.requester, ticket);
        let about = format!("seed {seed}, {case:?}, {service}, amid {is_amid}, both {of_both}: {ending:?}");
        assert!(matches!(&ending, NodeEvent::Finished { summary, .. } if summary.complete), "{about}");
        assert_eq!(trio.runs(), usize::from(service.is_call()), "{about}");
    });
}

/// A program that takes seconds is not run by the other provider, too, though the requester asks again meanwhile.
#[test]
fn slow_calls_run_once() {
    for_seeds(60, |seed| {
        let case = PairCase { shares_hubs: false, settles: 5 * SECOND, idle: SECOND, ..PairCase::of_seed(seed) };
        let mut trio = Trio::new(seed, case);
        let mut random = SplitMix64::new(seed);
        for host in [trio.pair.provider, trio.other] {
            trio.pair.world.hosts[host.0].slow_source = true;
        }
        let (is_lost, of_both) = (random.below(2) == 0, random.below(2) == 0);
        if is_lost {
            trio.lose_sight(of_both);
        }
        let ticket = trio.pair.world.request_with(trio.pair.requester, render(), ANYWHERE, |wanted| {
            (wanted.body, wanted.timeout) = (object(3000), Some(60 * SECOND));
        });
        for _ in 0..200 {
            trio.pair.world.run(100 * MS);
            if trio.runs() > 0 {
                break;
            }
        }
        trio.pair.world.run(MS * (1_000 + random.below(9_000) as u32));
        trio.answer_call();
        let ending = trio.pair.world.outcome(trio.pair.requester, ticket);
        let about = format!("seed {seed}, {case:?}, lost {is_lost}, both {of_both}: {ending:?}, {} runs", trio.runs());
        assert!(matches!(&ending, NodeEvent::Finished { summary, .. } if summary.complete), "{about}");
        assert_eq!(trio.runs(), 1, "{about}");
    });
}
