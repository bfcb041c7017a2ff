//! The paths of nodes that moved, on the grid of cells.

use std::collections::BTreeMap;

use maud::{Markup, html};
use roost_drawing::Spot;
use roost_results::record::PositionRecord;
use roost_topology::Topology;

use super::kinds::{Kind, Kinds, points, short};
use super::labels::{Area, TakenAreas, around_dot};
use super::{HOST, HUB, KeyRows, KeySign, NetworkMarks, SIZE, draw_label, draw_ring};
use crate::figure::canvas::{Mark, Sheet};
use crate::figure::ink::Ink;

const WIDTH: f64 = 720.0;
const LEAST_WIDTH: f64 = 480.0;
const RIM: f64 = 40.0;
/// The most corners of a path that are drawn.
const CORNERS: usize = 400;
const LARGEST_CELL: f64 = 60.0;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cell {
    x: i32,
    y: i32,
}

/// Draws the paths of all nodes that were in more than one cell; `None` if none was.
pub(in crate::figure) fn paths(
    topology: &Topology,
    positions: &[PositionRecord],
    marks: NetworkMarks<'_>,
) -> Option<Sheet> {
    let mut by_node: BTreeMap<&str, Vec<Cell>> = BTreeMap::new();
    for position in positions {
        let path = by_node.entry(&position.node).or_default();
        let cell = Cell { x: position.x, y: position.y };
        if path.last() != Some(&cell) {
            path.push(cell);
        }
    }
    by_node.values().any(|path| path.len() > 1).then(|| Grid::around(&by_node).draw(topology, &by_node, marks))
}

struct Grid {
    left: i32,
    upper: i32,
    columns: f64,
    rows: f64,
    cell: f64,
}

impl Grid {
    fn around(paths: &BTreeMap<&str, Vec<Cell>>) -> Self {
        let cells = || paths.values().flatten();
        let extent = |of: fn(&Cell) -> i32| {
            (cells().map(of).min().unwrap_or_default(), cells().map(of).max().unwrap_or_default())
        };
        let ((left, right), (lower, upper)) = (extent(|cell| cell.x), extent(|cell| cell.y));
        let [columns, rows] = [(left, right), (lower, upper)].map(|(low, high)| f64::from(high) - f64::from(low) + 1.0);
        let cell = ((WIDTH - 2.0 * RIM) / columns.max(rows)).min(LARGEST_CELL);
        Self { left, upper, columns, rows, cell }
    }

    fn place(&self, Cell { x, y }: Cell) -> Spot {
        let middle = |cells: f64| (cells + 0.5) * self.cell + RIM;
        // Rows count northwards, and north is up.
        let (column, row) = (f64::from(x) - f64::from(self.left), f64::from(self.upper) - f64::from(y));
        Spot { x: middle(column), y: middle(row) }
    }

    /// The place of a node in its cell, so that paths through the same cells lie beside each other.
    fn in_lane(&self, number: usize, spot: Spot) -> Spot {
        let lanes = 7;
        let shift = ((number * 3 % lanes) as f64 / (lanes - 1) as f64 - 0.5) * 0.56 * self.cell;
        Spot { x: spot.x + shift, y: spot.y + shift }
    }

    fn draw(&self, topology: &Topology, paths: &BTreeMap<&str, Vec<Cell>>, marks: NetworkMarks<'_>) -> Sheet {
        let kinds = PathKinds::new(topology, paths);
        let width = (self.columns * self.cell + 2.0 * RIM).max(LEAST_WIDTH);
        let mut key = KeyRows::new(width);
        kinds.key.iter().for_each(|(name, kind)| key.add(name, KeySign::Host(*kind)));
        let is_hub = |name: &str| marks.hubs.iter().any(|hub| hub == name);
        if paths.keys().any(|name| is_hub(name)) {
            key.add("hub", KeySign::Hub);
        }
        key.say("A line leads from the ring where its node began to the dot where it ended.");
        if let Some(side) = topology.motion.cell_m {
            key.say(&format!("A cell is {side} m wide."));
        }
        let (key, key_height) = key.finish();
        let mut taken = TakenAreas::default();
        let in_lane = |number: usize, cell: Cell| self.in_lane(number, self.place(cell));
        let ends: Vec<(&str, Spot)> = (paths.iter().enumerate())
            .filter_map(|(number, (name, path))| Some((*name, in_lane(number, *path.last()?))))
            .collect();
        ends.iter().for_each(|(_, end)| taken.add(Area::around(*end, HOST, HOST)));
        let begins: Vec<(&str, Spot)> = (paths.iter().enumerate())
            .filter(|(_, (_, path))| path.len() > 1)
            .filter_map(|(number, (name, path))| Some((*name, in_lane(number, *path.first()?))))
            .collect();
        begins.iter().for_each(|(_, begin)| taken.add(Area::around(*begin, HOST, HOST)));
        // The numbers of the columns.
        let below = RIM + self.rows * self.cell;
        taken.add(Area { left: 0.0, upper: below, right: width, lower: below + RIM });
        let labels = ends.iter().copied().chain(begins.into_iter().filter(|_| !kinds.are_own));
        let radius = |name: &str| if is_hub(name) { HUB } else { HOST };
        let labels =
            labels.filter_map(|(name, spot)| taken.put(name, SIZE, &around_dot(spot, radius(name), name, SIZE)));
        let labels: Vec<_> = labels.collect();
        let body = html! {
            g transform="scale(10)" {
                (key)
                g transform={ "translate(0 " (short(key_height)) ")" } {
                    (self.draw_rules())
                    @for (number, (name, path)) in paths.iter().enumerate() {
                        (draw_path(name, kinds.kind(name).ink, thinned(path).map(|cell| in_lane(number, cell))))
                    }
                    @for (name, end) in &ends {
                        @if is_hub(name) { (draw_ring(*end)) }
                        (kinds.kind(name).draw(*end, HOST))
                    }
                    @for label in &labels { (draw_label(label, Ink::Text)) }
                }
            }
        };
        Sheet::of_markup(width, key_height + self.rows * self.cell + 2.0 * RIM, body)
    }

    /// The borders of cells, unless they would be too dense, with the numbers of columns and rows.
    fn draw_rules(&self) -> Markup {
        let (right, lower) = (RIM + self.columns * self.cell, RIM + self.rows * self.cell);
        let step = (12.0 / self.cell).ceil().max(1.0);
        let along = |cells: f64| {
            let rules = (cells / step).floor() as usize;
            (0..=rules).map(move |rule| RIM + rule as f64 * step * self.cell)
        };
        // A number takes the room of three cells of twelve pixels.
        let each = (36.0 / self.cell).ceil().max(1.0);
        let numbered = |cells: f64| (0..).map(move |n| f64::from(n) * each).take_while(move |cell| *cell < cells);
        html! {
            @for x in along(self.columns) { (rule(Spot { x, y: RIM }, Spot { x, y: lower })) }
            @for y in along(self.rows) { (rule(Spot { x: RIM, y }, Spot { x: right, y })) }
            @for column in numbered(self.columns) {
                (number(Spot { x: RIM + (column + 0.5) * self.cell, y: lower + 13.0 }, "middle", f64::from(self.left) + column))
            }
            @for row in numbered(self.rows) {
                (number(Spot { x: RIM - 6.0, y: RIM + (row + 0.5) * self.cell + 3.5 }, "end", f64::from(self.upper) - row))
            }
            (axis_name(Spot { x: right, y: lower + 28.0 }, "end", "column of the cell"))
            (axis_name(Spot { x: 4.0, y: RIM - 12.0 }, "start", "row of the cell"))
        }
    }
}

fn rule(from: Spot, to: Spot) -> Markup {
    html! {
        line x1=(short(from.x)) y1=(short(from.y)) x2=(short(to.x)) y2=(short(to.y))
            stroke=(Ink::Rule.hex()) stroke-width="0.6" {}
    }
}

fn number(at: Spot, anchor: &str, cell: f64) -> Markup {
    axis_name(at, anchor, &cell.to_string())
}

fn axis_name(at: Spot, anchor: &str, text: &str) -> Markup {
    html! {
        text x=(short(at.x)) y=(short(at.y)) font-size="10" text-anchor=(anchor) fill=(Ink::Muted.hex())
            font-family=(crate::figure::canvas::FONTS) { (text) }
    }
}

/// A path of more than one corner, with a ring at its beginning.
fn draw_path(name: &str, ink: Ink, corners: impl Iterator<Item = Spot>) -> Markup {
    let corners: Vec<Spot> = corners.collect();
    let begins = corners.first().filter(|first| corners.iter().any(|corner| corner != *first)).copied();
    html! {
        polyline points=(points(corners)) fill="none" stroke=(ink.hex()) stroke-width="2"
            stroke-opacity="0.75" stroke-linejoin="round" { title { (name) } }
        @if let Some(Spot { x, y }) = begins {
            circle cx=(short(x)) cy=(short(y)) r="4" fill=(Ink::Paper.hex()) stroke=(ink.hex()) stroke-width="1.6" {}
        }
    }
}

/// The kinds of paths: where few nodes moved, one for each in the inks that no class has, or else those of the classes
/// that are drawn.
struct PathKinds<'a> {
    by_node: BTreeMap<&'a str, Kind>,
    key: Vec<(&'a str, Kind)>,
    /// True if each path has an ink of its own.
    are_own: bool,
}

impl<'a> PathKinds<'a> {
    fn new(topology: &'a Topology, paths: &BTreeMap<&'a str, Vec<Cell>>) -> Self {
        let kinds = Kinds::new(topology);
        let class = |name: &str| topology.host_index(name).and_then(|host| topology.hosts[host].class.as_deref());
        let moved: Vec<&str> = paths.iter().filter(|(_, path)| path.len() > 1).map(|(name, _)| *name).collect();
        let is_free = |ink: &Ink| kinds.key().all(|(_, kind)| kind.ink != *ink);
        let free: Vec<Ink> = Ink::KINDS.into_iter().filter(is_free).collect();
        if (2..=free.len()).contains(&moved.len()) {
            let own = free.into_iter().zip(&moved).map(|(ink, name)| (*name, Kind { ink, mark: Mark::Dot }));
            let key: Vec<(&str, Kind)> = own.collect();
            return Self { by_node: key.iter().copied().collect(), key, are_own: true };
        }
        let by_node: BTreeMap<&str, Kind> = paths.keys().map(|name| (*name, kinds.kind(class(name)))).collect();
        let key = kinds.key().filter(|(_, kind)| by_node.values().any(|drawn| drawn == kind)).collect();
        Self { by_node, key, are_own: false }
    }

    /// A node that stayed has the ink of no class where each path has its own.
    fn kind(&self, node: &str) -> Kind {
        self.by_node.get(node).copied().unwrap_or(Kind::NONE)
    }
}

/// The corners of a path, evenly fewer if there are too many; its last cell stays.
fn thinned(path: &[Cell]) -> impl Iterator<Item = Cell> + '_ {
    let step = path.len().div_ceil(CORNERS).max(1);
    path.iter().step_by(step).chain(path.last()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(node: &str, x: i32, y: i32) -> PositionRecord {
        PositionRecord { t: 0.0, node: node.to_owned(), x, y }
    }

    #[test]
    fn standing_nodes_have_no_paths() {
        let topology = Topology::default();
        let none = NetworkMarks::default();
        let still = [position("a", 1, 1), position("a", 1, 1), position("b", 3, 4)];
        assert!(paths(&topology, &still, none).is_none());
        assert!(paths(&topology, &[], none).is_none());
    }

    #[test]
    fn paths_end_in_dots() {
        let far = [position("a", i32::MIN, i32::MAX), position("a", i32::MAX, i32::MIN), position("b", 0, 0)];
        let svg = paths(&Topology::default(), &far, NetworkMarks::default()).unwrap().standing("paths");
        // The ends of both, and the beginning of the one that moved.
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (2, 3));
    }

    #[test]
    fn few_paths_have_own_inks() {
        let topology = Topology::default();
        let inks = |count: i32| {
            let moves = (0..count).flat_map(|n| [position(&format!("n{n}"), n, 0), position(&format!("n{n}"), n, 1)]);
            let svg = paths(&topology, &moves.collect::<Vec<_>>(), NetworkMarks::default()).unwrap().standing("paths");
            let lines =
                svg.split("<polyline").skip(1).map(|line| line.split("stroke=\"").nth(1).unwrap()[..7].to_owned());
            let inks: std::collections::BTreeSet<String> = lines.collect();
            (inks.len(), svg.contains("row of the cell"), svg.matches(">no class</text>").count())
        };
        assert_eq!(inks(3), (3, true, 0));
        assert_eq!(inks(20).0, 1);
    }

    #[test]
    fn own_inks_are_of_no_class() {
        let text =
            "lenient = true\n[[host]]\nname = ['a', 'b']\nclass = 'uav'\n[[host]]\nname = 'h'\nclass = 'ground'\n";
        let topology = roost_topology::file::parse("t", text).unwrap_or_else(|problems| panic!("{problems:?}"));
        let moves = ["a", "b"].map(|name| [position(name, 0, 0), position(name, 1, 0)]).concat();
        let svg = paths(&topology, &moves, NetworkMarks::default()).unwrap().inline("paths").0;
        let [uav, ground, own] = [0, 1, 2].map(|number| format!("stroke=\"{}\"", Ink::kind(number).hex()));
        assert!(!svg.contains(&uav) && !svg.contains(&ground) && svg.contains(&own), "{svg}");
    }

    #[test]
    fn key_has_what_is_drawn() {
        let text =
            "lenient = true\n[[host]]\nname = ['a', 'b']\nclass = 'uav'\n[[host]]\nname = 'h'\nclass = 'ground'\n";
        let topology = roost_topology::file::parse("t", text).unwrap_or_else(|problems| panic!("{problems:?}"));
        let moves = [position("a", 0, 0), position("a", 1, 0), position("b", 2, 0)];
        let hubs = ["h".to_owned()];
        let drawn = |positions: &[PositionRecord]| {
            paths(&topology, positions, NetworkMarks { hubs: &hubs }).unwrap().standing("paths")
        };
        let svg = drawn(&moves);
        assert!(
            svg.contains(">uav</text>") && !svg.contains(">ground</text>") && !svg.contains(">hub</text>"),
            "{svg}"
        );
        let svg = drawn(&[moves.as_slice(), &[position("h", 5, 5)]].concat());
        assert!(svg.contains(">ground</text>") && svg.contains(">hub</text>") && svg.contains(">h</text>"), "{svg}");
    }

    #[test]
    fn north_is_up() {
        let path = vec![Cell { x: 0, y: 3 }, Cell { x: 0, y: 12 }];
        let grid = Grid::around(&BTreeMap::from([("a", path.clone())]));
        assert!(grid.place(path[1]).y < grid.place(path[0]).y);
    }

    #[test]
    fn long_paths_are_thinned() {
        let path: Vec<_> = (0..100_000).map(|x| Cell { x, y: 0 }).collect();
        let thinned: Vec<_> = thinned(&path).collect();
        assert!(thinned.len() <= CORNERS + 1 && thinned.last() == Some(&Cell { x: 99_999, y: 0 }));
    }
}
