//! Covers outlines on the grid with few rectangles.

use roost_wire::grid::Area;
use roost_wire::{Cell, grid};

use crate::datum::GridPoint;

/// The most rectangles that cover a region. Each is a lookup of its own.
pub const MAX_RECTANGLES: usize = 8;

/// Places at which a rectangle may be cut, on either side.
const CUTS: i64 = 16;
/// A cut that saves less than a part of all cells in this many is not worth another lookup.
const LEAST_SAVING: u64 = 20;
/// Rounding moves the ends of a clipped edge by less, in cells.
const ROUNDING: f64 = 1e-6;

/// A polygon on the grid: its outer ring, then its holes. The last point of a ring is joined to the first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outline(Vec<Vec<GridPoint>>);

impl Outline {
    pub(crate) const fn new(rings: Vec<Vec<GridPoint>>) -> Self {
        Self(rings)
    }

    /// True of a point from which a ray crosses the rings an odd number of times. A point exactly on an edge may be
    /// counted to either side.
    pub(crate) fn contains(&self, point: GridPoint) -> bool {
        let crosses = |(a, b): &(GridPoint, GridPoint)| {
            (a.y > point.y) != (b.y > point.y) && point.x < a.x + (point.y - a.y) / (b.y - a.y) * (b.x - a.x)
        };
        self.0.iter().flat_map(|ring| edges(ring)).filter(crosses).count() % 2 == 1
    }
}

fn edges(ring: &[GridPoint]) -> impl Iterator<Item = (GridPoint, GridPoint)> {
    ring.iter().copied().zip(ring.iter().copied().cycle().skip(1))
}

/// The rectangles, without overlap. Each step cuts the rectangle in two whose cut saves the most cells.
pub(crate) fn rectangles(outlines: &[Outline]) -> Vec<Area> {
    let outer = outlines.iter().filter_map(|Outline(rings)| rings.first().cloned()).collect();
    let everything = Bounds { min: [-grid::MAX_COORDINATE; 2], max: [grid::MAX_COORDINATE; 2] };
    let mut parts: Vec<Part> = Part::within(outer, everything).into_iter().collect();
    let least = parts.iter().map(|part| part.bounds.cells()).sum::<u64>() / LEAST_SAVING;
    while parts.len() < MAX_RECTANGLES {
        let cuts = parts.iter().enumerate().filter_map(|(index, part)| Some((index, part.best_cut()?)));
        let Some((index, cut)) = cuts.max_by_key(|(_, cut)| cut.saving).filter(|(_, cut)| cut.saving > least) else {
            break;
        };
        parts.swap_remove(index);
        parts.extend(cut.halves);
    }
    parts.iter().map(|part| part.bounds.area()).collect()
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Below,
    From,
}

/// Cells from `min` to `max`, both included; east first.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    min: [i32; 2],
    max: [i32; 2],
}

impl Bounds {
    /// The cells of all points of some rings; none if there are no points.
    fn around(rings: &[Vec<GridPoint>]) -> Option<Self> {
        let mut ends: Option<[[f64; 2]; 2]> = None;
        for point in rings.iter().flatten() {
            let point = [point.x, point.y];
            let [min, max] = ends.get_or_insert([point; 2]);
            for axis in 0..2 {
                min[axis] = min[axis].min(point[axis]);
                max[axis] = max[axis].max(point[axis]);
            }
        }
        let [min, max] = ends?;
        let cell = |coordinate: f64| coordinate.floor() as i32;
        Some(Self { min: min.map(|least| cell(least - ROUNDING)), max: max.map(|greatest| cell(greatest + ROUNDING)) })
    }

    /// The cells that both have; none if they have no cell in common.
    fn common(self, other: Self) -> Option<Self> {
        let of_axes = |[a, b]: [i32; 2], [c, d]: [i32; 2], choose: fn(i32, i32) -> i32| [choose(a, c), choose(b, d)];
        let common = Self { min: of_axes(self.min, other.min, i32::max), max: of_axes(self.max, other.max, i32::min) };
        (common.min[0] <= common.max[0] && common.min[1] <= common.max[1]).then_some(common)
    }

    fn cells(self) -> u64 {
        let side = |axis: usize| u64::from(self.max[axis].abs_diff(self.min[axis])) + 1;
        side(0) * side(1)
    }

    /// The cells on one side of a line.
    fn beside(mut self, axis: usize, line: i32, side: Side) -> Self {
        match side {
            Side::Below => self.max[axis] = line - 1,
            Side::From => self.min[axis] = line,
        }
        self
    }

    fn area(self) -> Area {
        Area::Rectangle { min: Cell::new(self.min[0], self.min[1]), max: Cell::new(self.max[0], self.max[1]) }
    }
}

/// A rectangle, and the pieces of the outer rings that lie in it.
struct Part {
    bounds: Bounds,
    rings: Vec<Vec<GridPoint>>,
}

struct Cut {
    /// Cells that need not be searched after the cut.
    saving: u64,
    halves: Vec<Part>,
}

impl Part {
    fn within(rings: Vec<Vec<GridPoint>>, limits: Bounds) -> Option<Self> {
        let bounds = Bounds::around(&rings)?.common(limits)?;
        Some(Self { bounds, rings })
    }

    fn best_cut(&self) -> Option<Cut> {
        let lines = (0..2).flat_map(|axis| {
            let (min, max) = (i64::from(self.bounds.min[axis]), i64::from(self.bounds.max[axis]));
            let mut lines: Vec<i32> = (1..CUTS).map(|cut| (min + (max + 1 - min) * cut / CUTS) as i32).collect();
            lines.dedup();
            lines.into_iter().filter(move |line| i64::from(*line) > min).map(move |line| (axis, line))
        });
        lines.map(|(axis, line)| self.cut(axis, line)).max_by_key(|cut| cut.saving)
    }

    fn cut(&self, axis: usize, line: i32) -> Cut {
        let half = |side| {
            let rings = self.rings.iter().map(|ring| clip(ring, axis, f64::from(line), side)).collect();
            Self::within(rings, self.bounds.beside(axis, line, side))
        };
        let halves: Vec<Self> = [Side::Below, Side::From].into_iter().filter_map(half).collect();
        let left: u64 = halves.iter().map(|half| half.bounds.cells()).sum();
        Cut { saving: self.bounds.cells().saturating_sub(left), halves }
    }
}

/// The ring on one side of a line, after Sutherland and Hodgman. Pieces of a ring stay joined along the line, which
/// may widen bounds there and never narrows them.
fn clip(ring: &[GridPoint], axis: usize, line: f64, side: Side) -> Vec<GridPoint> {
    let away = |point: GridPoint| [point.x, point.y][axis] - line;
    let is_kept = |point: GridPoint| match side {
        Side::Below => away(point) <= 0.0,
        Side::From => away(point) >= 0.0,
    };
    let mut kept = Vec::new();
    for (a, b) in edges(ring) {
        if is_kept(a) {
            kept.push(a);
        }
        if is_kept(a) != is_kept(b) {
            let part = away(a) / (away(a) - away(b));
            kept.push(GridPoint { x: a.x + (b.x - a.x) * part, y: a.y + (b.y - a.y) * part });
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(points: &[(f64, f64)]) -> Outline {
        Outline::new(vec![points.iter().map(|&(x, y)| GridPoint { x, y }).collect()])
    }

    fn cells(areas: &[Area]) -> u64 {
        let cells = |area: &Area| match *area {
            Area::Rectangle { min, max } => Bounds { min: [min.x, min.y], max: [max.x, max.y] }.cells(),
            _ => 0,
        };
        areas.iter().map(cells).sum()
    }

    #[test]
    fn rectangle_is_covered_by_itself() {
        let cover = rectangles(&[outline(&[(0.5, 0.5), (9.5, 0.5), (9.5, 4.5), (0.5, 4.5)])]);
        assert_eq!(cover, [Area::rectangle(Cell::new(0, 0), Cell::new(9, 4))]);
    }

    #[test]
    fn triangle_saves_most_of_a_half() {
        let cover = rectangles(&[outline(&[(0.0, 0.0), (999.0, 0.0), (0.0, 999.0)])]);
        assert!(cover.len() <= MAX_RECTANGLES);
        assert!(cells(&cover) < 640_000, "{} cells", cells(&cover));
    }

    #[test]
    fn tiny_outline_is_one_cell() {
        let cover = rectangles(&[outline(&[(-0.5, 3.5), (-0.4, 3.5), (-0.4, 3.6)])]);
        assert_eq!(cover, [Area::rectangle(Cell::new(-1, 3), Cell::new(-1, 3))]);
    }

    #[test]
    fn scattered_outlines_stay_within_the_limit() {
        let square = |i: i32| {
            let (x, y) = (f64::from(i * 977 % 5000), f64::from(i * 1409 % 5000));
            outline(&[(x, y), (x + 3.0, y), (x + 3.0, y + 3.0), (x, y + 3.0)])
        };
        let outlines: Vec<Outline> = (0..40).map(square).collect();
        let cover = rectangles(&outlines);
        assert_eq!(cover.len(), MAX_RECTANGLES);
        assert!(cells(&cover) < 20_000_000);
        for Outline(rings) in &outlines {
            let corner = Cell::new(rings[0][0].x as i32, rings[0][0].y as i32);
            assert!(cover.iter().any(|area| area.contains(corner)));
        }
    }
}
