//! Disks in rings around a point, none above another.

use std::f64::consts::{PI, TAU};

/// A point of a drawing. A host has a disk of radius 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spot {
    pub x: f64,
    pub y: f64,
}

/// Directions in which a better middle is searched.
const DIRECTIONS: u32 = 16;

/// The error of a middle, as a part of the radius: errors of branches add up along a chain.
const ERROR: f64 = 1e-4;

impl Spot {
    pub fn at(angle: f64, distance: f64) -> Self {
        Self { x: angle.cos() * distance, y: angle.sin() * distance }
    }

    pub fn plus(self, other: Self) -> Self {
        Self { x: self.x + other.x, y: self.y + other.y }
    }

    pub fn minus(self, other: Self) -> Self {
        Self { x: self.x - other.x, y: self.y - other.y }
    }

    pub fn turned(self, angle: f64) -> Self {
        let (sin, cos) = angle.sin_cos();
        Self { x: self.x * cos - self.y * sin, y: self.x * sin + self.y * cos }
    }

    pub fn length(self) -> f64 {
        self.x.hypot(self.y)
    }

    pub fn angle(self) -> f64 {
        self.y.atan2(self.x)
    }
}

/// Disks around the origin, and the disk around all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Packing {
    pub(crate) spots: Vec<Spot>,
    pub(crate) middle: Spot,
    pub(crate) radius: f64,
}

/// The sides on which disks may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sides {
    All,
    /// All but straight below, where a link leads away.
    NotBelow,
}

/// Half the room of a link that leads away.
const LINK: f64 = 0.7;

/// Puts disks of these radii around a disk of radius `core` at the origin, in several tight rings or in a wide one,
/// whichever is smaller.
pub(crate) fn pack(core: f64, radii: &[f64], sides: Sides) -> Packing {
    let mut order: Vec<usize> = (0..radii.len()).collect();
    order.sort_by(|one, other| radii[*other].total_cmp(&radii[*one]));
    let tight = packing(core, radii, tight_rings(core, &order, radii, sides));
    if core == 0.0 || radii.len() < 2 {
        return tight;
    }
    let wide = packing(core, radii, wide_ring(core, &order, radii, sides));
    if wide.radius < tight.radius { wide } else { tight }
}

fn packing(core: f64, radii: &[f64], spots: Vec<Spot>) -> Packing {
    let (middle, radius) = around(core, radii, &spots);
    Packing { spots, middle, radius }
}

fn tight_rings(core: f64, order: &[usize], radii: &[f64], sides: Sides) -> Vec<Spot> {
    let mut spots = vec![Spot::default(); radii.len()];
    let (mut inner, mut left) = (core, order);
    while let Some(largest) = left.first().map(|first| radii[*first]) {
        if inner == 0.0 {
            (inner, left) = (largest, &left[1..]);
            continue;
        }
        let mut angle = 0.0;
        let fits = left.iter().take_while(|disk| {
            angle += 2.0 * half_angle(inner, radii[**disk]);
            angle <= sides.angle(inner) + 1e-9
        });
        let (ring, rest) = left.split_at(fits.count().max(1));
        put_ring(inner, ring, radii, &mut spots, sides);
        (inner, left) = (inner + 2.0 * largest, rest);
    }
    spots
}

fn wide_ring(core: f64, order: &[usize], radii: &[f64], sides: Sides) -> Vec<Spot> {
    let mut spots = vec![Spot::default(); radii.len()];
    let needed = |inner: f64| order.iter().map(|disk| 2.0 * half_angle(inner, radii[*disk])).sum::<f64>();
    let fits = |inner: f64| needed(inner) <= sides.angle(inner);
    let mut high = core;
    while !fits(high) {
        high *= 2.0;
    }
    let mut low = core;
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if fits(middle) { high = middle } else { low = middle }
    }
    put_ring(high, order, radii, &mut spots, sides);
    spots
}

impl Sides {
    /// The angle of a ring that disks may take.
    fn angle(self, inner: f64) -> f64 {
        match self {
            Self::All => TAU,
            Self::NotBelow => TAU - 2.0 * half_angle(inner, LINK),
        }
    }
}

/// Half the angle that a disk next to a disk of radius `inner` covers, as seen from the origin.
fn half_angle(inner: f64, radius: f64) -> f64 {
    (radius / (inner + radius)).asin()
}

/// Puts each disk of a ring next to the disk inside, in a sector of its own.
fn put_ring(inner: f64, ring: &[usize], radii: &[f64], spots: &mut [Spot], sides: Sides) {
    let (covered, all) =
        (ring.iter().map(|disk| 2.0 * half_angle(inner, radii[*disk])).sum::<f64>(), sides.angle(inner));
    let gap = ((all - covered) / ring.len() as f64).max(0.0);
    // The angles go around from one side of the link below to the other.
    let mut angle = (PI - all) / 2.0 + gap / 2.0;
    for disk in ring {
        let half = half_angle(inner, radii[*disk]);
        spots[*disk] = Spot::at(angle + half, inner + radii[*disk]);
        angle += 2.0 * half + gap;
    }
}

/// A small disk around all of them: its middle goes wherever the radius shrinks, by less and less.
fn around(core: f64, radii: &[f64], spots: &[Spot]) -> (Spot, f64) {
    let all = || spots.iter().copied().zip(radii.iter().copied()).chain([(Spot::default(), core)]);
    let reach = |middle: Spot| all().map(|(spot, radius)| spot.minus(middle).length() + radius).fold(0.0, f64::max);
    let (mut middle, mut radius) = (Spot::default(), reach(Spot::default()));
    let mut step = if spots.is_empty() { 0.0 } else { radius / 2.0 };
    while step > radius * ERROR {
        let angles = (0..DIRECTIONS).map(|number| TAU * f64::from(number) / f64::from(DIRECTIONS));
        let tried = angles.map(|angle| middle.plus(Spot::at(angle, step))).map(|spot| (reach(spot), spot));
        match tried.min_by(|one, other| one.0.total_cmp(&other.0)) {
            Some((better, spot)) if better < radius => (middle, radius) = (spot, better),
            _ => step /= 2.0,
        }
    }
    (middle, radius)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn packed_disks_stay_apart(core in 0.0..3.0_f64, radii in prop::collection::vec(0.5..20.0_f64, 0..60)) {
            let packing = pack(core, &radii, Sides::NotBelow);
            for (one, spot) in packing.spots.iter().enumerate() {
                prop_assert!(spot.minus(packing.middle).length() + radii[one] <= packing.radius + 1e-6);
                prop_assert!(core == 0.0 || spot.length() >= core + radii[one] - 1e-6);
                for other in 0..one {
                    let apart = packing.spots[other].minus(*spot).length();
                    prop_assert!(apart >= radii[one] + radii[other] - 1e-6, "{one} and {other} are {apart} apart");
                }
            }
        }
    }

    #[test]
    fn thousand_equal_disks_are_dense() {
        let packing = pack(1.0, &vec![1.0; 1000], Sides::All);
        // A disk of a thousand times the area has a radius of 31.6.
        assert!(packing.radius < 40.0, "{}", packing.radius);
    }
}
