//! Labels that neither overlap one another nor cover a host.

use std::collections::BTreeMap;

use roost_drawing::Spot;

use crate::figure::canvas::width_of;

/// The side of a square of the index, pixels.
const SQUARE: f64 = 64.0;
const GAP: f64 = 1.5;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) upper: f64,
    pub(super) right: f64,
    pub(super) lower: f64,
}

impl Area {
    pub(super) fn around(Spot { x, y }: Spot, half_width: f64, half_height: f64) -> Self {
        Self { left: x - half_width, upper: y - half_height, right: x + half_width, lower: y + half_height }
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.upper < other.lower && other.upper < self.lower
    }

    /// True if a line between two spots goes through it (Liang and Barsky's clipping, 1984).
    fn is_crossed(&self, [one, other]: [Spot; 2]) -> bool {
        let along = other.minus(one);
        let (mut from, mut until) = (0.0_f64, 1.0_f64);
        let sides = [
            (-along.x, one.x - self.left),
            (along.x, self.right - one.x),
            (-along.y, one.y - self.upper),
            (along.y, self.lower - one.y),
        ];
        for (step, room) in sides {
            match step {
                0.0 if room < 0.0 => return false,
                0.0 => {}
                _ if step < 0.0 => from = from.max(room / step),
                _ => until = until.min(room / step),
            }
        }
        from < until
    }

    fn squares(&self) -> impl Iterator<Item = (i64, i64)> + use<> {
        let square = |value: f64| (value / SQUARE).floor() as i64;
        let (left, right) = (square(self.left), square(self.right));
        (square(self.upper)..=square(self.lower)).flat_map(move |row| (left..=right).map(move |column| (column, row)))
    }
}

/// A text of one line, around a point.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Label {
    pub(super) text: String,
    pub(super) middle: Spot,
    pub(super) size: f64,
}

impl Label {
    pub(super) fn area(&self) -> Area {
        Area::around(self.middle, width_of(&self.text, self.size) / 2.0 + GAP, self.size * 0.62)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct TakenAreas {
    squares: BTreeMap<(i64, i64), Vec<Area>>,
}

impl TakenAreas {
    pub(super) fn add(&mut self, area: Area) {
        area.squares().for_each(|square| self.squares.entry(square).or_default().push(area));
    }

    pub(super) fn is_free(&self, area: &Area) -> bool {
        let near = area.squares().filter_map(|square| self.squares.get(&square));
        near.flatten().all(|taken| !taken.overlaps(area))
    }

    /// Puts a text at the first of these middles that is free; `None` if there is no room for it.
    pub(super) fn put(&mut self, text: &str, size: f64, middles: &[Spot]) -> Option<Label> {
        let labels = middles.iter().map(|middle| Label { text: text.to_owned(), middle: *middle, size });
        let label = labels.into_iter().find(|label| self.is_free(&label.area()))?;
        self.add(label.area());
        Some(label)
    }
}

/// The lines of a drawing, by the squares that they go through.
#[derive(Clone, Debug, Default)]
pub(super) struct CrossedSquares {
    lines: Vec<[Spot; 2]>,
    squares: BTreeMap<(i64, i64), Vec<usize>>,
}

impl CrossedSquares {
    pub(super) fn add(&mut self, line: [Spot; 2]) {
        let along = line[1].minus(line[0]);
        let steps = (along.length() / (SQUARE / 8.0)).ceil().max(1.0);
        let number = self.lines.len();
        self.lines.push(line);
        for step in 0..=steps as usize {
            let part = step as f64 / steps;
            let spot = Spot { x: line[0].x + along.x * part, y: line[0].y + along.y * part };
            for square in Area::around(spot, SQUARE / 8.0, SQUARE / 8.0).squares() {
                let lines = self.squares.entry(square).or_default();
                if lines.last() != Some(&number) {
                    lines.push(number);
                }
            }
        }
    }

    /// True if no line goes through the area, except that with this number.
    pub(super) fn spare(&self, area: &Area, own: Option<usize>) -> bool {
        let near = area.squares().filter_map(|square| self.squares.get(&square));
        near.flatten().all(|number| Some(*number) == own || !area.is_crossed(self.lines[*number]))
    }
}

/// The middles around a dot at which its label may stand: below, above, to the right, to the left.
pub(super) fn around_dot(Spot { x, y }: Spot, radius: f64, text: &str, size: f64) -> [Spot; 8] {
    let (beside, over) = (radius + width_of(text, size) / 2.0 + 3.0, radius + size * 0.62 + 1.0);
    let part = beside * 0.6;
    [
        (x, y + over),
        (x, y - over),
        (x + beside, y),
        (x - beside, y),
        (x + part, y + over),
        (x - part, y + over),
        (x + part, y - over),
        (x - part, y - over),
    ]
    .map(|(x, y)| Spot { x, y })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn labels_stay_apart(spots in prop::collection::vec((0.0..400.0_f64, -200.0..200.0_f64), 1..60)) {
            let spots: Vec<Spot> = spots.into_iter().map(|(x, y)| Spot { x, y }).collect();
            let mut taken = TakenAreas::default();
            spots.iter().for_each(|spot| taken.add(Area::around(*spot, 6.0, 6.0)));
            let mut put = Vec::new();
            for spot in &spots {
                put.extend(taken.put("tactical1", 10.0, &around_dot(*spot, 6.0, "tactical1", 10.0)));
            }
            for (one, label) in put.iter().enumerate() {
                prop_assert!(spots.iter().all(|spot| !Area::around(*spot, 6.0, 6.0).overlaps(&label.area())));
                prop_assert!(put[..one].iter().all(|other| !other.area().overlaps(&label.area())));
            }
        }
    }

    #[test]
    fn lines_cross_areas() {
        let area = Area::around(Spot { x: 100.0, y: 100.0 }, 20.0, 5.0);
        let line = |x, y, to_x, to_y| [Spot { x, y }, Spot { x: to_x, y: to_y }];
        for (crossing, told) in [
            (line(0.0, 0.0, 200.0, 200.0), true),
            (line(100.0, 0.0, 100.0, 300.0), true),
            (line(0.0, 100.0, 300.0, 100.0), true),
            (line(0.0, 110.0, 300.0, 110.0), false),
            (line(0.0, 0.0, 90.0, 90.0), false),
            (line(130.0, 0.0, 130.0, 300.0), false),
        ] {
            let mut lines = CrossedSquares::default();
            lines.add(crossing);
            assert_eq!(lines.spare(&area, None), !told, "{crossing:?}");
            assert!(lines.spare(&area, Some(0)));
        }
    }

    #[test]
    fn label_without_room_is_left_out() {
        let mut taken = TakenAreas::default();
        let (near, below) = (Spot { x: 3.0, y: 2.0 }, Spot { x: 0.0, y: 20.0 });
        assert!(taken.put("one", 10.0, &[Spot::default()]).is_some());
        assert_eq!(taken.put("two", 10.0, &[near]), None);
        assert_eq!(taken.put("two", 10.0, &[near, below]).unwrap().middle, below);
    }
}
