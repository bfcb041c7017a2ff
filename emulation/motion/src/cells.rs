//! The cells of hosts on the overlay's grid.
//!
//! Requests name a node by its cell, so each cell has one host at most: of several in one cell the first to come has
//! it, and the others have the nearest free one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use roost_topology::model::{HostIndex, Topology};
use roost_wire::Cell;

use super::course::Courses;

/// Cells are computed once a second: nodes publish no more often.
const PERIOD: Duration = Duration::from_secs(1);
/// The farthest that a free cell is searched.
const MAX_RING: i32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellMove {
    pub at: Duration,
    pub host: HostIndex,
    pub cell: Cell,
}

/// The cells of the hosts in motion over time.
#[derive(Clone, Debug)]
pub struct CellCourse {
    courses: Courses,
    cell_m: f64,
    cells: BTreeMap<HostIndex, Cell>,
    taken: BTreeSet<Cell>,
    now: Duration,
    rest: Option<Duration>,
}

impl CellCourse {
    /// The cells at the start; `None` if the topology's motion has no `cell`, or no host moves on the grid.
    pub fn new(topology: &Topology) -> Option<Self> {
        let cell_m = topology.motion.cell_m?;
        let courses = Courses::new(topology).ok()?;
        let standing = topology.hosts.iter().enumerate().filter(|(host, _)| !courses.has(*host));
        let taken = standing.filter_map(|(_, host)| host.cell).map(|(x, y)| Cell::new(x, y)).collect();
        let rests: Option<Vec<Duration>> = courses.hosts().map(|host| courses.rest(host)).collect();
        let rest = rests.map(|rests| rests.into_iter().max().unwrap_or_default());
        let mut course = Self { courses, cell_m, cells: BTreeMap::new(), taken, now: Duration::ZERO, rest };
        course.step(Duration::ZERO);
        (!course.cells.is_empty()).then_some(course)
    }

    pub fn cell(&self, host: HostIndex) -> Option<Cell> {
        self.cells.get(&host).copied()
    }

    pub fn deadline(&self) -> Option<Duration> {
        self.rest.is_none_or(|rest| self.now < rest).then(|| self.now + PERIOD)
    }

    /// Goes on to `now`, and returns the hosts that have come to another cell.
    pub fn step(&mut self, now: Duration) -> Vec<CellMove> {
        self.now = now;
        let hosts: Vec<HostIndex> = self.courses.hosts().collect();
        hosts.into_iter().filter_map(|host| self.step_host(host, now)).collect()
    }

    fn step_host(&mut self, host: HostIndex, now: Duration) -> Option<CellMove> {
        let [east_m, north_m, _] = self.courses.place(host, now)?.local_m?;
        let column = |meters: f64| (meters / self.cell_m).floor() as i32;
        let own = self.cell(host);
        let there = Cell::new(column(east_m), column(north_m));
        if own == Some(there) || !there.is_on_grid() {
            return None;
        }
        own.into_iter().for_each(|own| {
            self.taken.remove(&own);
        });
        let cell = self.free_cell(there).or(own);
        self.taken.extend(cell);
        let cell = cell.filter(|cell| own != Some(*cell))?;
        self.cells.insert(host, cell);
        Some(CellMove { at: now, host, cell })
    }

    /// The cell itself, or the nearest free one, in rings around it.
    fn free_cell(&self, Cell { x, y }: Cell) -> Option<Cell> {
        let is_free = |cell: &Cell| cell.is_on_grid() && !self.taken.contains(cell);
        (0..=MAX_RING).find_map(|ring| {
            let edge =
                |dx: i32| (-ring..=ring).filter(move |dy| dx.abs().max(dy.abs()) == ring).map(move |dy| (dx, dy));
            let steps = (-ring..=ring).flat_map(edge).filter(|(dx, dy)| is_free(&Cell::new(x + dx, y + dy)));
            // Of a ring a corner is farthest.
            steps.min_by_key(|(dx, dy)| dx * dx + dy * dy).map(|(dx, dy)| Cell::new(x + dx, y + dy))
        })
    }
}
