//! Chance, and the two ways to lose packets by it.

use roost_proto::random::SplitMix64;

use super::PipeConfig;
use crate::topology::model::Burst;

/// Whether something of this probability happens; what is not above 0 never
/// does, and costs no draw.
pub(super) fn happens(random: &mut SplitMix64, probability: f64) -> bool {
    /// 2⁶⁴.
    const ALL: f64 = 18_446_744_073_709_551_616.0;
    // The cast saturates, so 1 is all but one draw in 2⁶⁴: say it apart.
    probability > 0.0 && (probability >= 1.0 || random.next_u64() < (probability * ALL) as u64)
}

/// The streams of chance of one pipe. They are apart, so that a pipe loses the
/// same packets with and without jitter, and with another queue behind.
#[derive(Clone, Debug)]
pub(super) struct PipeRng {
    pub(super) loss: SplitMix64,
    pub(super) burst: [SplitMix64; 2],
    pub(super) early: SplitMix64,
    pub(super) jitter: SplitMix64,
}

impl PipeRng {
    /// Those of the pipe of this number in a network of this seed.
    pub(super) fn new(seed: u64, pipe: u32) -> Self {
        // Hashed one after the other: the pipes of neighbouring seeds are not each other's.
        let network = SplitMix64::new(seed).next_u64();
        let mut root = SplitMix64::new(SplitMix64::new(network.wrapping_add(u64::from(pipe))).next_u64());
        let mut stream = || SplitMix64::new(root.next_u64());
        Self { loss: stream(), burst: [stream(), stream()], early: stream(), jitter: stream() }
    }
}

/// The state of both ways to lose packets.
#[derive(Clone, Debug, Default)]
pub(super) struct LossState {
    bad: [bool; 2],
}

impl LossState {
    /// Whether the packet that arrives now is lost. All models see every packet.
    pub(super) fn strike(&mut self, config: &PipeConfig, streams: &mut PipeRng) -> bool {
        let mut lost = happens(&mut streams.loss, config.loss);
        for ((burst, bad), random) in config.burst.iter().zip(&mut self.bad).zip(&mut streams.burst) {
            match burst {
                Some(burst) => lost |= burst_strikes(*burst, bad, random),
                None => *bad = false,
            }
        }
        lost
    }
}

/// Gilbert–Elliott: moves between the states first, then loses in the bad one.
fn burst_strikes(burst: Burst, bad: &mut bool, random: &mut SplitMix64) -> bool {
    let turn = if *bad { burst.leave } else { burst.enter };
    *bad ^= happens(random, turn);
    *bad && happens(random, burst.loss)
}
