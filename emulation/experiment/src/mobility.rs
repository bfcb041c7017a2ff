//! Positions of moving nodes: a walk without a clock.
//!
//! Each node steps to an adjacent cell at the plan's speed; the first step has a random time. It takes one of
//! the free cells around it, drawn with the plan's seed, so that two nodes never share a cell: requests name a
//! node by its cell. It stays on the grid, in the rectangle of the initial cells, widened by half its sides all
//! around.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use roost_motion::CellCourse;
use roost_topology::model::HostIndex;
use roost_wire::Cell;
use roost_wire::random::SplitMix64;

use super::placement::Placement;
use super::plan::Plan;
use super::prepare::Prepared;
use super::workload::generator;

const AROUND: [(i32, i32); 4] = [(1, 0), (-1, 0), (0, 1), (0, -1)];

/// The cells of all nodes, and their future steps.
#[derive(Clone, Debug)]
pub struct Mobility {
    cells: Vec<Cell>,
    taken: BTreeSet<Cell>,
    /// Corners of the area in which they walk.
    ground: (Cell, Cell),
    /// The time of each node's next step; empty without movement.
    due: BTreeSet<(Duration, usize)>,
    /// Time between two steps of a node.
    pause: Duration,
    /// The time at which movement ends.
    end: Duration,
    random: SplitMix64,
    /// The cells of hosts whose places the topology gives.
    followed: Option<Followed>,
}

#[derive(Clone, Debug)]
struct Followed {
    course: CellCourse,
    nodes: BTreeMap<HostIndex, usize>,
    moves: VecDeque<(usize, Cell)>,
}

impl Mobility {
    pub fn empty() -> Self {
        let (cells, taken, due) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let random = SplitMix64::new(0);
        Self {
            ground: ground(&cells),
            cells,
            taken,
            due,
            pause: Duration::ZERO,
            end: Duration::ZERO,
            random,
            followed: None,
        }
    }

    /// The motion of a plan's nodes: that of its topology, or else the walk of its movement. Time 0 is the start of
    /// the workload.
    pub fn from_prepared(prepared: &Prepared) -> Self {
        let Prepared { plan, placement, topology, .. } = prepared;
        let nodes = placement.nodes.iter().enumerate().map(|(node, placed)| (placed.host, node)).collect();
        let followed = CellCourse::new(topology);
        let followed = followed.map(|course| Followed { course, nodes, moves: VecDeque::new() });
        Self { followed, ..Self::from_plan(plan, placement) }
    }

    /// The walk of a plan's nodes; they stand still if it has no movement.
    fn from_plan(plan: &Plan, placement: &Placement) -> Self {
        let cells: Vec<Cell> = placement.nodes.iter().map(|node| node.cell).collect();
        let mut random = generator(plan.seed, "movement");
        let pause = plan.movement.map_or(Duration::ZERO, |movement| movement.pause());
        let movers = if plan.movement.is_some() { cells.len() } else { 0 };
        // Spread, so that they do not step all at once.
        let mut first = || Duration::from_nanos(random.below(pause.as_nanos().try_into().unwrap_or(u64::MAX)));
        let due = (0..movers).map(|node| (first(), node)).collect();
        let taken = cells.iter().copied().collect();
        Self { ground: ground(&cells), cells, taken, due, pause, end: plan.duration, random, followed: None }
    }

    pub fn cell(&self, node: usize) -> Cell {
        self.cells[node]
    }

    /// The time of the next result of [`Self::step`].
    pub fn deadline(&self) -> Option<Duration> {
        if let Some(Followed { course, .. }) = &self.followed {
            return course.deadline().filter(|at| *at < self.end);
        }
        self.due.first().map(|(at, _)| *at).filter(|at| *at < self.end)
    }

    /// Takes the next step that is due by `now`; returns the node and its new cell.
    pub fn step(&mut self, now: Duration) -> Option<(usize, Cell)> {
        if self.followed.is_some() {
            return self.follow(now);
        }
        while self.deadline().is_some_and(|at| at <= now) {
            let (at, node) = self.due.pop_first()?;
            self.due.insert((at + self.pause, node));
            if let Some(cell) = self.free_adjacent_cell(self.cells[node]) {
                self.taken.remove(&self.cells[node]);
                self.taken.insert(cell);
                self.cells[node] = cell;
                return Some((node, cell));
            }
        }
        None
    }

    fn follow(&mut self, now: Duration) -> Option<(usize, Cell)> {
        while let Some(at) = self.deadline().filter(|at| *at <= now) {
            let Followed { course, nodes, moves } = self.followed.as_mut()?;
            if !moves.is_empty() {
                break;
            }
            let stepped = course.step(at);
            moves.extend(stepped.into_iter().filter_map(|step| Some((*nodes.get(&step.host)?, step.cell))));
        }
        let (node, cell) = self.followed.as_mut()?.moves.pop_front()?;
        self.cells[node] = cell;
        Some((node, cell))
    }

    /// A free cell adjacent to this one, if there is any.
    fn free_adjacent_cell(&mut self, Cell { x, y }: Cell) -> Option<Cell> {
        let (low, high) = self.ground;
        let around = AROUND.map(|(dx, dy)| Cell::new(x + dx, y + dy));
        let is_inside = |cell: &Cell| (low.x..=high.x).contains(&cell.x) && (low.y..=high.y).contains(&cell.y);
        let is_free = |cell: &Cell| is_inside(cell) && cell.is_on_grid() && !self.taken.contains(cell);
        let free: Vec<Cell> = around.into_iter().filter(is_free).collect();
        // Fits usize: it is below the number of cells. Without a choice nothing is drawn.
        free.get(self.random.below(free.len().max(1) as u64) as usize).copied()
    }
}

/// The rectangle of these cells, widened by half its sides all around.
fn ground(cells: &[Cell]) -> (Cell, Cell) {
    let span = |of: fn(&Cell) -> i32| {
        let (low, high) = (cells.iter().map(of).min().unwrap_or(0), cells.iter().map(of).max().unwrap_or(0));
        let margin = (high - low + 2) / 2;
        (low - margin, high + margin)
    };
    let ((left, right), (bottom, top)) = (span(|cell| cell.x), span(|cell| cell.y));
    (Cell::new(left, bottom), Cell::new(right, top))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Prepared;
    use super::*;

    fn prepared(more: &str) -> Prepared {
        let text =
            format!("topology = {{ star = {{ nodes = 9 }} }}\narchitecture = 'super-node'\nduration = '10m'\n{more}");
        Prepared::from_text(&text, Path::new("p.toml")).unwrap()
    }

    /// All steps of a plan with these lines: time, node, new cell.
    fn steps(more: &str) -> (Prepared, Vec<(Duration, usize, Cell)>) {
        let prepared = prepared(more);
        let mut walk = Mobility::from_plan(&prepared.plan, &prepared.placement);
        let mut steps = Vec::new();
        while let Some(at) = walk.deadline() {
            while let Some((node, cell)) = walk.step(at) {
                assert_eq!(walk.cell(node), cell);
                steps.push((at, node, cell));
            }
        }
        (prepared, steps)
    }

    #[test]
    fn nodes_step_to_free_adjacent_cells() {
        let (Prepared { placement, .. }, steps) = steps("[movement]\nspeed = 6.0\n");
        let mut cells: Vec<Cell> = placement.nodes.iter().map(|node| node.cell).collect();
        let (low, high) = ground(&cells);
        let mut last: Vec<Option<Duration>> = vec![None; cells.len()];
        for (at, node, cell) in &steps {
            assert_eq!((cells[*node].x - cell.x).abs() + (cells[*node].y - cell.y).abs(), 1);
            let is_inside = (low.x..=high.x).contains(&cell.x) && (low.y..=high.y).contains(&cell.y);
            assert!(is_inside && !cells.contains(cell), "{cell}");
            assert!(last[*node].is_none_or(|last| (*at - last).as_millis() % 10_000 == 0));
            (cells[*node], last[*node]) = (*cell, Some(*at));
        }
        // Sixty steps of each node, minus those that had no free cell.
        let all = cells.len() * 60;
        assert!((all * 9 / 10..=all).contains(&steps.len()), "{} of {all}", steps.len());
    }

    #[test]
    fn the_seed_decides_and_nothing_else() {
        let walk = |seed: u64| steps(&format!("seed = {seed}\n[movement]\nspeed = 1.5\n")).1;
        assert_eq!(walk(1), walk(1));
        assert_ne!(walk(1), walk(2));
    }

    #[test]
    fn without_movement_all_stand_still() {
        assert_eq!(steps("").1, []);
    }
}
