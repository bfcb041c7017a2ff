//! Expected values: Erum's printed figures, and the formulas of that model and of a better split. L is the
//! number of streams that a super node can send.

/// L in the paper: a reflector sends 905 Mbit/s, and a stream takes 30 Mbit/s.
pub const STREAMS: f64 = 905.0 / 30.0;

/// The most clients that all send and receive, for 1 to 16 reflectors: Erum's Table 3, as printed. For 1, 3 and
/// 5 it is one less than by equation (4) there.
const TABLE_3: [usize; 16] = [5, 7, 8, 8, 9, 11, 10, 9, 9, 10, 11, 12, 13, 14, 15, 16];

/// The most clients when one of them only receives, as measured there: Table 2, as printed.
const TABLE_2: [usize; 16] = [6, 8, 9, 9, 10, 12, 11, 10, 10, 11, 11, 12, 13, 14, 15, 16];

const MOST: usize = 1_000;

/// Printed figures for this number of reflectors and the paper's L.
pub(super) fn printed(hubs: usize, streams: f64) -> [Option<usize>; 2] {
    let is_theirs = (streams - STREAMS).abs() < 0.01;
    let at = |table: &[usize; 16]| table.get(hubs.wrapping_sub(1)).copied().filter(|_| is_theirs);
    [at(&TABLE_3), at(&TABLE_2)]
}

/// Equation (4): a fullest reflector has n/m clients, rounded up; each of their streams goes to m - 1
/// reflectors and its other clients, and the streams of all others go to each of them.
pub(super) fn counted(hubs: usize, streams: f64) -> usize {
    most(|n| (n.div_ceil(hubs) * (hubs + n - 2)) as f64 <= streams)
}

/// The most clients if all super nodes share the copies evenly.
pub(super) fn balanced(hubs: usize, streams: f64) -> usize {
    most(|n| (n * (n + hubs - 2)) as f64 <= hubs as f64 * streams)
}

/// Subscribers of one stream, split by their number: the fullest super node feeds the others as well.
pub(super) fn track_counted(hubs: usize, streams: f64) -> usize {
    hubs * (whole(streams) + 1).saturating_sub(hubs)
}

/// Subscribers of one stream, split by residual capacity in whole copies.
pub(super) fn track_balanced(hubs: usize, streams: f64) -> usize {
    (hubs * whole(streams) + 1).saturating_sub(hubs)
}

fn whole(streams: f64) -> usize {
    streams as usize
}

/// The greatest number of at least two for which `holds` is true, or one.
fn most(holds: impl Fn(usize) -> bool) -> usize {
    // Not monotonic: an additional client at the fullest reflector may be too much where a larger number is
    // not.
    (2..MOST).rev().find(|n| holds(*n)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_matches_published_figures() {
        let four = |hubs| counted(hubs, STREAMS);
        let all: Vec<usize> = (1..=16).map(four).collect();
        assert_eq!(all, [6, 7, 9, 8, 10, 11, 10, 9, 9, 10, 11, 12, 13, 14, 15, 16]);
        assert_eq!([2, 4, 8, 16].map(|hubs| balanced(hubs, STREAMS)), [7, 10, 12, 16]);
        assert_eq!([2, 4, 8].map(|hubs| track_counted(hubs, STREAMS)), [58, 108, 184]);
        assert_eq!([2, 4, 8].map(|hubs| track_balanced(hubs, STREAMS)), [59, 117, 233]);
        assert_eq!((counted(1, 1.0), track_counted(9, 4.0)), (1, 0));
    }

    #[test]
    fn figures_cover_one_rate_sixteen_hubs() {
        assert_eq!(printed(1, STREAMS), [Some(5), Some(6)]);
        assert_eq!([printed(17, STREAMS), printed(0, STREAMS), printed(2, 10.0)], [[None; 2]; 3]);
    }
}
