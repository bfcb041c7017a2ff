//! Random draws, and the two ways of losing packets.

use roost_topology::model::Burst;
use roost_wire::random::SplitMix64;

/// Returns true with this probability. A probability of 0 or less draws no random number.
pub(super) fn happens(random: &mut SplitMix64, probability: f64) -> bool {
    const ALL: f64 = 18_446_744_073_709_551_616.0;
    // The cast saturates, so 1 would miss one draw in 2⁶⁴ without this case.
    probability > 0.0 && (probability >= 1.0 || random.next_u64() < (probability * ALL) as u64)
}

/// The random streams of one pipe. They are independent, so that a pipe loses the same packets with and without
/// jitter, and with another queue behind it.
#[derive(Clone, Debug)]
pub(super) struct PipeRng {
    pub(super) loss: SplitMix64,
    pub(super) burst: [SplitMix64; 2],
    pub(super) early: SplitMix64,
    pub(super) jitter: SplitMix64,
}

impl PipeRng {
    /// Seeds the streams from the network's seed and the pipe's number.
    pub(super) fn new(seed: u64, pipe: u32) -> Self {
        // Hashed in two steps: adjacent seeds must not share pipes' streams.
        let network = SplitMix64::new(seed).next_u64();
        let mut root = SplitMix64::new(SplitMix64::new(network.wrapping_add(u64::from(pipe))).next_u64());
        let mut stream = || SplitMix64::new(root.next_u64());
        Self { loss: stream(), burst: [stream(), stream()], early: stream(), jitter: stream() }
    }
}

/// The state of both kinds of loss.
#[derive(Clone, Debug, Default)]
pub(super) struct LossState {
    bad: [bool; 2],
}

impl LossState {
    /// True if the packet that arrives now is lost, with this probability or in a burst. Every packet updates all
    /// models.
    pub(super) fn strike(&mut self, loss: f64, burst: [Option<Burst>; 2], streams: &mut PipeRng) -> bool {
        let mut lost = happens(&mut streams.loss, loss);
        for ((burst, bad), random) in burst.iter().zip(&mut self.bad).zip(&mut streams.burst) {
            match burst {
                Some(burst) => lost |= burst_strikes(*burst, bad, random),
                None => *bad = false,
            }
        }
        lost
    }
}

/// Gilbert–Elliott: changes the state first, then draws a loss in the bad one.
fn burst_strikes(burst: Burst, bad: &mut bool, random: &mut SplitMix64) -> bool {
    let turn = if *bad { burst.leave } else { burst.enter };
    *bad ^= happens(random, turn);
    *bad && happens(random, burst.loss)
}
