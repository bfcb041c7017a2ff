//! Rings of polygons that cross themselves, which have no inside that people agree on.

/// True if two edges of a ring cross. Edges that only touch are no crossing. Each point is latitude and longitude; an
/// edge goes the shorter way around the Earth. The edges compared are at most half the square of
/// [`MAX_POINTS`](crate::MAX_POINTS).
pub(crate) fn crosses_itself(ring: &[[f64; 2]]) -> bool {
    let mut east = 0.0;
    let mut before = ring.first().map_or(0.0, |point| point[1]);
    let unrolled = ring.iter().map(|point| {
        east += (point[1] - before + 180.0).rem_euclid(360.0) - 180.0;
        before = point[1];
        [point[0], east]
    });
    let points: Vec<[f64; 2]> = unrolled.collect();
    let edges: Vec<[[f64; 2]; 2]> =
        points.iter().copied().zip(points.iter().copied().skip(1)).map(<[_; 2]>::from).collect();
    // Neighbors share a point, and rounding must not make a crossing of it. The last edge is the first one's neighbor.
    let are_apart = |index: usize, other: usize| other > index + 1 && (index, other + 1) != (0, edges.len());
    edges.iter().enumerate().any(|(index, edge)| {
        let mut others = edges.iter().enumerate().filter(|(other, _)| are_apart(index, *other));
        others.any(|(_, other)| cross(edge, other))
    })
}

fn cross([a, b]: &[[f64; 2]; 2], [c, d]: &[[f64; 2]; 2]) -> bool {
    let side = |from: &[f64; 2], to: &[f64; 2], point: &[f64; 2]| {
        (to[0] - from[0]) * (point[1] - from[1]) - (to[1] - from[1]) * (point[0] - from[0])
    };
    side(a, b, c) * side(a, b, d) < 0.0 && side(c, d, a) * side(c, d, b) < 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bow_tie_crosses_itself() {
        let bow = [[47.0, 8.0], [47.1, 8.1], [47.1, 8.0], [47.0, 8.1], [47.0, 8.0]];
        let square = [[47.0, 8.0], [47.0, 8.1], [47.1, 8.1], [47.1, 8.0], [47.0, 8.0]];
        let touching = [[0.0, 0.0], [0.0, 2.0], [1.0, 1.0], [2.0, 2.0], [2.0, 0.0], [1.0, 1.0], [0.0, 0.0]];
        assert!(crosses_itself(&bow));
        assert!(!crosses_itself(&square) && !crosses_itself(&touching) && !crosses_itself(&[]));
    }

    #[test]
    fn rounding_makes_no_crossing() {
        let star = |turn: f64| {
            let ray = |i: u32| {
                let (sin, cos) = (f64::from(i % 3) * std::f64::consts::TAU / 3.0 + turn).sin_cos();
                [47.123_456_7 + cos * 0.7, 178.9 + sin * 2.3]
            };
            [ray(0), ray(1), ray(2), ray(3)]
        };
        assert!((0..1000).all(|turn| !crosses_itself(&star(f64::from(turn) * 0.01))));
    }

    #[test]
    fn meridian_is_crossed_the_shorter_way() {
        let across = |lons: [f64; 4]| {
            let ring = [[1.0, lons[0]], [1.0, lons[1]], [2.0, lons[2]], [2.0, lons[3]], [1.0, lons[0]]];
            crosses_itself(&ring)
        };
        assert!(!across([179.0, -179.0, -179.0, 179.0]));
        assert!(across([179.0, -179.0, 179.0, -179.0]));
    }
}
