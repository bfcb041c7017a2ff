//! The expected behaviour of a path, from its description.

use std::time::Duration;

use roost_netcore::PipeConfig;
use roost_netcore::wiring::direction;
use roost_topology::model::{Burst, Net, NetKind};
use roost_topology::units::Rate;

/// The path of a packet from one member of a link or LAN to another: one pipe on a link, two on a LAN.
#[derive(Clone, Debug)]
pub(super) struct ExpectedPath {
    stages: Vec<PipeConfig>,
}

impl ExpectedPath {
    /// The path between the members with these indices; `None` if one does not exist.
    pub(super) fn between(net: &Net, from: usize, to: usize) -> Option<Self> {
        let (sender, receiver) = (net.members.get(from)?, net.members.get(to)?);
        let stages = match net.kind {
            NetKind::Link => vec![direction(&sender.to_net, &receiver.from_net)],
            NetKind::Lan => vec![(&sender.to_net).into(), (&receiver.from_net).into()],
        };
        Some(Self { stages })
    }

    /// True if a trace changes the path while it is measured.
    pub(super) fn plays_trace(&self) -> bool {
        self.stages.iter().any(|stage| stage.trace.is_some())
    }

    /// The mean delay of a frame of this size on an idle path.
    pub(super) fn delay(&self, frame: u32) -> Duration {
        self.stages.iter().map(|stage| stage.rate.time_for(frame.into()) + stage.delay + stage.jitter / 2).sum()
    }

    pub(super) fn longest(&self, frame: u32) -> Duration {
        self.stages.iter().map(|stage| stage.rate.time_for(frame.into()) + stage.delay + stage.jitter).sum()
    }

    /// The interval at which no frame meets another, or is held back by the jitter of the one before.
    pub(super) fn spacing(&self, frame: u32) -> Duration {
        let apart = self.stages.iter().map(|stage| 2 * stage.rate.time_for(frame.into()) + stage.jitter);
        apart.max().unwrap_or_default()
    }

    pub(super) fn rate(&self) -> Rate {
        self.stages.iter().fold(Rate::UNLIMITED, |rate, stage| rate.slower(stage.rate))
    }

    /// The fraction of packets lost in the long run.
    pub(super) fn loss(&self) -> f64 {
        loss(&self.stages)
    }

    /// The variance of the number lost of `n` packets, over n: p(1 − p) for independent losses, more for
    /// bursts.
    pub(super) fn loss_variance(&self) -> f64 {
        loss_variance(&self.stages)
    }

    /// The fraction of an offered rate that survives the losses before the slowest stage's queue.
    pub(super) fn survival_before_bottleneck(&self) -> f64 {
        1.0 - loss(self.stages.get(..=self.bottleneck()).unwrap_or_default())
    }

    /// The losses behind the slowest stage's queue: their fraction, and their variance as in
    /// [`ExpectedPath::loss_variance`].
    pub(super) fn loss_after_bottleneck(&self) -> (f64, f64) {
        let after = self.stages.get(self.bottleneck() + 1..).unwrap_or_default();
        (loss(after), loss_variance(after))
    }

    /// The smallest queue in front of a rate, as packets of this size, including the one in transmission.
    pub(super) fn smallest_queue(&self, frame: u32) -> u32 {
        let limited = self.stages.iter().filter(|stage| !stage.rate.is_unlimited());
        let packets = limited.map(|stage| match stage.queue.in_bytes {
            true => stage.queue.limit / frame.max(1),
            false => stage.queue.limit,
        });
        packets.min().unwrap_or(u32::MAX)
    }

    /// True if a queue drops packets before it is full.
    pub(super) fn drops_early(&self) -> bool {
        use roost_topology::model::Discipline::Red;
        self.stages.iter().any(|stage| !stage.rate.is_unlimited() && matches!(stage.queue.discipline, Red(_)))
    }

    fn bottleneck(&self) -> usize {
        let rate = self.rate();
        self.stages.iter().position(|stage| stage.rate == rate).unwrap_or_default()
    }
}

/// The bursts of a pipe that have an effect.
fn bursts(stage: &PipeConfig) -> impl Iterator<Item = Burst> {
    stage.burst.into_iter().flatten().filter(|burst| burst.enter > 0.0 && burst.loss > 0.0)
}

/// The fraction of time that a Gilbert–Elliott model spends in its bad state.
fn bad(burst: Burst) -> f64 {
    burst.enter / (burst.enter + burst.leave)
}

fn loss(stages: &[PipeConfig]) -> f64 {
    let survives = |stage: &PipeConfig| {
        bursts(stage).fold(1.0 - stage.loss, |survival, burst| survival * (1.0 - bad(burst) * burst.loss))
    };
    1.0 - stages.iter().map(survives).product::<f64>()
}

/// For independent two-state chains, each of which lets a packet survive with mean s and covariance c·λᵏ
/// between packets k apart, with λ = 1 − enter − leave: the covariance of the product is the sum over all
/// non-empty sets of chains of Π c (in the set) · Π s² (outside) · (Π λ)ᵏ. Summed over k = 1, 2… and doubled,
/// it is the amount that bursts add to p(1 − p).
fn loss_variance(stages: &[PipeConfig]) -> f64 {
    let p = loss(stages);
    let random: f64 = stages.iter().map(|stage| 1.0 - stage.loss).product();
    // At most two pipes with two models each: 16 sets.
    let chains: Vec<(f64, f64, f64)> = stages.iter().flat_map(bursts).map(chain).collect();
    let mut added = 0.0;
    for set in 1_u32..1 << chains.len() {
        let (mut weight, mut lambda) = (random * random, 1.0);
        for (index, (mean, covariance, own)) in chains.iter().enumerate() {
            if set & (1 << index) != 0 {
                weight *= covariance;
                lambda *= own;
            } else {
                weight *= mean * mean;
            }
        }
        // A chain that never changes (λ = 1) has an infinite variance; one change in 10⁹ packets stands for it.
        added += 2.0 * weight * lambda / (1.0 - lambda).max(1e-9);
    }
    (p * (1.0 - p) + added).max(0.0)
}

/// Mean survival, the covariance's factor, and its decay from packet to packet.
fn chain(burst: Burst) -> (f64, f64, f64) {
    let bad = bad(burst);
    (1.0 - bad * burst.loss, burst.loss * burst.loss * bad * (1.0 - bad), 1.0 - burst.enter - burst.leave)
}

#[cfg(test)]
mod tests {
    use roost_netcore::{Destination, Network, SendOutcome};
    use roost_wire::Time;

    use super::*;

    fn stage(loss: f64, burst: Option<Burst>) -> PipeConfig {
        PipeConfig { loss, burst: [burst, None], ..PipeConfig::default() }
    }

    fn path(stages: Vec<PipeConfig>) -> ExpectedPath {
        ExpectedPath { stages }
    }

    #[test]
    fn lan_stages_add_up() {
        let leg = PipeConfig {
            rate: Rate::from_bps(1_000_000),
            delay: Duration::from_millis(20),
            jitter: Duration::from_millis(4),
            ..PipeConfig::default()
        };
        let fast = PipeConfig { rate: Rate::from_bps(10_000_000), delay: Duration::from_millis(5), ..leg.clone() };
        let path = path(vec![leg, fast]);
        // 100 bytes: 0.8 ms and 0.08 ms.
        assert_eq!(path.delay(100), Duration::from_micros(25_000 + 880 + 4_000));
        assert_eq!(path.longest(100), Duration::from_micros(25_000 + 880 + 8_000));
        assert_eq!(path.spacing(100), Duration::from_micros(1_600 + 4_000));
        assert_eq!(path.rate().bps(), 1_000_000);
    }

    #[test]
    fn losses_around_bottleneck_are_separated() {
        let slow = PipeConfig { rate: Rate::from_bps(1_000), ..stage(0.1, None) };
        let path = path(vec![slow, stage(0.2, None)]);
        assert!((path.survival_before_bottleneck() - 0.9).abs() < 1e-12);
        assert!((path.loss_after_bottleneck().0 - 0.2).abs() < 1e-12);
        assert!((path.loss() - 0.28).abs() < 1e-12);
    }

    #[test]
    fn single_losses_vary_as_a_binomial() {
        let path = path(vec![stage(0.1, None), stage(0.2, None)]);
        assert!((path.loss_variance() - 0.28 * 0.72).abs() < 1e-12);
        assert_eq!(self::path(vec![stage(0.0, None)]).loss_variance(), 0.0);
    }

    #[test]
    fn burst_loss_and_variance_match_network() {
        let burst = Burst { enter: 0.02, leave: 0.2, loss: 0.7 };
        let other = Burst { enter: 0.05, leave: 0.3, loss: 1.0 };
        let stage = PipeConfig { burst: [Some(burst), Some(other)], ..stage(0.03, None) };
        let path = path(vec![stage.clone()]);
        let mut network = Network::new(7);
        let [a, b] = network.add_link(stage, PipeConfig::default());
        let (rounds, each) = (400, 2_000);
        let mut counts = Vec::new();
        for _ in 0..rounds {
            let lost =
                |_: &i32| matches!(network.send(Time::ZERO, a, Destination::Port(b), 100, ()), SendOutcome::Dropped(_));
            counts.push((0..each).filter(lost).count() as f64);
        }
        let mean = counts.iter().sum::<f64>() / f64::from(rounds);
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / f64::from(rounds - 1);
        assert!((mean / f64::from(each) - path.loss()).abs() < 0.003, "{mean} of {each}, {}", path.loss());
        let ratio = variance / f64::from(each) / path.loss_variance();
        // The sampling error of a variance from 400 values is 7 %.
        assert!((0.75..1.25).contains(&ratio), "{ratio}");
        assert!(path.loss_variance() > 3.0 * path.loss() * (1.0 - path.loss()));
    }

    #[test]
    fn byte_queue_converts_to_packets() {
        use roost_topology::model::{Discipline, Queue};
        let rate = Rate::from_bps(1_000);
        let queue = Queue { limit: 3_000, in_bytes: true, discipline: Discipline::DropTail };
        let path = path(vec![PipeConfig { rate, queue, ..stage(0.0, None) }, PipeConfig { rate, ..stage(0.0, None) }]);
        assert_eq!(path.smallest_queue(1_000), 3);
        assert_eq!(path.smallest_queue(10), 50);
        assert_eq!(self::path(vec![stage(0.0, None)]).smallest_queue(10), u32::MAX);
    }
}
