//! The key of a figure: names with a dot of their ink, in as many rows as they need.

use super::canvas::{Canvas, Mark, TextAnchor, WIDTH, WORDS, cut_to, width_of};
use super::ink::Ink;

const ROW: f64 = 24.0;
const GAP: f64 = 17.0;
/// The room of a dot, before its name.
const SIGN: f64 = 15.0;

#[derive(Clone, Debug, PartialEq)]
struct KeyName {
    name: String,
    ink: Ink,
    mark: Mark,
    x: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FigureKey {
    rows: Vec<Vec<KeyName>>,
}

impl FigureKey {
    pub(super) fn new(names: Vec<(String, Ink)>) -> Self {
        Self::with_marks(names.into_iter().map(|(name, ink)| (name, ink, Mark::Dot)))
    }

    /// The key of lines, which inks and marks tell apart by their numbers.
    pub(super) fn of_kinds(names: &[String]) -> Self {
        Self::with_marks((0..).zip(names).map(|(number, name)| (name.clone(), Ink::kind(number), Mark::kind(number))))
    }

    fn with_marks(names: impl IntoIterator<Item = (String, Ink, Mark)>) -> Self {
        let mut rows: Vec<Vec<KeyName>> = Vec::new();
        let mut free_from = f64::INFINITY;
        for (name, ink, mark) in names {
            let name = cut_to(&name, WORDS, WIDTH - SIGN);
            let width = width_of(&name, WORDS) + SIGN;
            if free_from + width > WIDTH {
                rows.push(Vec::new());
                free_from = 0.0;
            }
            if let Some(row) = rows.last_mut() {
                row.push(KeyName { name, ink, mark, x: free_from });
            }
            free_from += width + GAP;
        }
        Self { rows }
    }

    pub(super) fn height(&self) -> f64 {
        self.rows.len() as f64 * ROW
    }

    pub(super) fn draw(&self, canvas: &mut Canvas<'_>, top: f64) {
        for (row, names) in self.rows.iter().enumerate() {
            let y = top + (row as f64 + 0.5) * ROW;
            for KeyName { name, ink, mark, x } in names {
                canvas.mark((x + 5.0, y), 4.0, *ink, *mark);
                canvas.words(name, (x + 14.0, y), TextAnchor::Right, Ink::Text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_the_sheet() {
        let name = |n: usize| (format!("service-number-{n} (1.04 s)"), Ink::kind(n));
        for count in 0..12 {
            let key = FigureKey::new((0..count).map(name).collect());
            let names = key.rows.iter().flatten();
            assert!(names.clone().all(|one| one.x + SIGN + width_of(&one.name, WORDS) <= WIDTH));
            assert_eq!(names.count(), count);
        }
        let long = FigureKey::new(vec![("x".repeat(500), Ink::Blue)]);
        assert!(long.rows[0][0].name.ends_with('…'));
    }
}
