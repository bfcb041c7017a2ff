//! The frames of a run: each has its number, its due time, and a checksum over all of it.

use std::time::Duration;

use bytes::Bytes;

/// The shortest frame: only a header.
pub(super) const HEAD_BYTES: usize = 32;
/// Spreads a word over 64 bits: 2^64 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BenchFrameKind {
    Data = 1,
    End = 2,
}

/// The header of a frame that arrived intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: BenchFrameKind,
    /// From 0.
    pub(super) number: u64,
    /// The due time of sending, since the origin of all clocks.
    pub(super) due: Duration,
}

/// Makes a frame of `bytes`, at least [`HEAD_BYTES`], with content that differs between positions and frames.
pub(super) fn write(head: Head, bytes: usize) -> Bytes {
    let mut frame = vec![0; bytes.max(HEAD_BYTES)];
    // Fits u64 for 584 years.
    for (place, word) in [head.kind as u64, head.number, head.due.as_nanos() as u64].into_iter().enumerate() {
        frame[8 + place * 8..16 + place * 8].copy_from_slice(&word.to_le_bytes());
    }
    for (place, part) in frame[HEAD_BYTES..].chunks_mut(8).enumerate() {
        let word = (head.number ^ (place as u64).wrapping_mul(SPREAD)).to_le_bytes();
        part.copy_from_slice(&word[..part.len()]);
    }
    let sum = checksum(&frame[8..]).to_le_bytes();
    frame[..8].copy_from_slice(&sum);
    frame.into()
}

/// Reads a frame; `None` if it was changed.
pub(super) fn read(frame: &[u8]) -> Option<Head> {
    let (sum, rest) = frame.split_first_chunk()?;
    let word = |place: usize| Some(u64::from_le_bytes(rest.get(place * 8..place * 8 + 8)?.try_into().ok()?));
    let kind = match word(0)? {
        1 => BenchFrameKind::Data,
        2 => BenchFrameKind::End,
        _ => return None,
    };
    let head = Head { kind, number: word(1)?, due: Duration::from_nanos(word(2)?) };
    (u64::from_le_bytes(*sum) == checksum(rest)).then_some(head)
}

/// Depends on the order and the number of the bytes.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(bytes.len() as u64, |sum, part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        (sum.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(SPREAD)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(number in any::<u64>(), due in any::<u64>(), bytes in 0..2000usize) {
            let head = Head { kind: BenchFrameKind::Data, number, due: Duration::from_nanos(due) };
            let frame = write(head, bytes);
            prop_assert_eq!(frame.len(), bytes.max(HEAD_BYTES));
            prop_assert_eq!(read(&frame), Some(head));
        }

        #[test]
        fn a_change_anywhere_is_noticed(
            bytes in HEAD_BYTES..2000,
            at in any::<prop::sample::Index>(),
            change in 1..=u8::MAX,
        ) {
            let mut frame = write(Head { kind: BenchFrameKind::Data, number: 7, due: Duration::ZERO }, bytes).to_vec();
            let at = at.index(frame.len());
            frame[at] ^= change;
            prop_assert_eq!(read(&frame), None);
        }
    }

    #[test]
    fn reordered_and_cut_frames_detected() {
        let frame = write(Head { kind: BenchFrameKind::End, number: 7, due: Duration::ZERO }, 64 << 10);
        let mut swapped = frame.to_vec();
        swapped[8192..24_576].rotate_left(8192);
        assert_eq!(read(&swapped), None);
        assert_eq!(read(&frame[..frame.len() - 1]), None);
        assert_eq!(read(&frame[..HEAD_BYTES - 1]), None);
    }
}
