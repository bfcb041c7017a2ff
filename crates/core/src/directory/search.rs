//! Finding the best providers of a service in an area.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use roost_wire::block::{Block, gap};
use roost_wire::{Area, Cell, NodeId};

use super::key::IndexKey;
use super::query::{DirectoryQuery, Hit, Rank, SearchPurpose};
use super::{Directory, DirectoryEntry};

/// Rows of blocks looked into one by one before a search rather reads through
/// all entries of the service: from there on that is cheaper.
const MAX_ROWS: usize = 512;

/// Records that one search may look at. It bounds the work where a crowd
/// shares a cell; what was found by then is the answer.
const MAX_EXAMINED: usize = 16 * 1024;

impl Directory {
    /// Puts the best entries for `query` into `into`, the best first.
    ///
    /// An exact cell takes one step per entry there and O(log n) to find them;
    /// the others visit the blocks around the middle until nothing nearer can
    /// follow.
    ///
    /// Gives how many records it has looked at.
    pub fn find(&self, query: &DirectoryQuery, into: &mut Vec<Hit>) -> usize {
        self.find_where(query, None, into)
    }

    /// As [`find`](Self::find), among the entries whose cells `admits` holds for.
    pub(crate) fn find_where(&self, query: &DirectoryQuery, admits: Option<Admits<'_>>, into: &mut Vec<Hit>) -> usize {
        into.clear();
        if query.count == 0 || !query.area.is_valid() {
            return 0;
        }
        let center = query.center();
        let Some((index, known)) = self.index_of(query.service.code()) else { return 0 };
        let (examined, before, best) = (0, 0, into);
        let middle = None;
        let mut search =
            DirectorySearch { directory: self, index, known, query, admits, center, middle, examined, before, best };
        match query.area {
            Area::Exact(cell) => search.cell(cell),
            _ => search.outwards(),
        }
        search.before + search.examined
    }

    /// The entry of one node, if it is where `query` searches; it may offer something else, or nothing.
    pub(crate) fn find_one(&self, query: &DirectoryQuery, node: NodeId) -> Option<Hit> {
        let entry = self.get(node)?;
        let mut one = Vec::with_capacity(1);
        let query = DirectoryQuery { count: 1, ..query.clone() };
        let (center, best) = (query.center(), &mut one);
        let (index, known, admits) = (&self.index, 0, None);
        let mut search = DirectorySearch {
            directory: self,
            index,
            known,
            query: &query,
            admits,
            center,
            middle: None,
            examined: 0,
            before: 0,
            best,
        };
        if query.area.contains(entry.cell()) {
            search.rank(IndexKey::new(known, entry.cell(), *self.by_node.get(&node)?));
        }
        one.pop()
    }
}

/// True for the cells of which entries count.
pub(crate) type Admits<'a> = &'a dyn Fn(Cell) -> bool;

/// A search under way.
struct DirectorySearch<'a> {
    directory: &'a Directory,
    /// The index of the service, and the number that its keys have there.
    index: &'a BTreeSet<IndexKey>,
    known: u8,
    query: &'a DirectoryQuery,
    admits: Option<Admits<'a>>,
    center: Cell,
    /// The cell that was looked at last, and the distance of its middle.
    middle: Option<(Cell, u32)>,
    examined: usize,
    /// The value before it began anew.
    before: usize,
    /// Sorted, at most `query.count`.
    best: &'a mut Vec<Hit>,
}

impl DirectorySearch<'_> {
    fn cell(&mut self, cell: Cell) {
        let range = IndexKey::new(self.known, cell, 0)..=IndexKey::new(self.known, cell, super::MAX_NODES - 1);
        for key in self.index.range(range) {
            if self.is_spent() {
                break;
            }
            self.examine(*key);
        }
    }

    /// Goes from row to row of blocks, the nearer of the next ones above and
    /// below first. Empty rows cost nothing: the index tells the next one
    /// that has an entry.
    fn outwards(&mut self) {
        let (rows, columns) = Block::bounds(self.query.area);
        let center_row = Block::from_cell(self.center).row.clamp(*rows.start(), *rows.end());
        let mut above = self.row_from(center_row, &rows);
        let mut below = self.row_below(center_row, &rows);
        for _ in 0..MAX_ROWS {
            let gap_to = |row: Option<u32>| row.map(|row| gap(row, self.center.y));
            let take_above = match (gap_to(above), gap_to(below)) {
                (None, None) => return,
                (Some(above), Some(below)) => above <= below,
                (above, _) => above.is_some(),
            };
            let Some(row) = (if take_above { above } else { below }) else { return };
            if !self.may_be_within(gap(row, self.center.y), 0) || self.is_spent() {
                return;
            }
            self.row(row, &columns);
            if take_above {
                above = self.row_from(row + 1, &rows);
            } else {
                below = self.row_below(row, &rows);
            }
        }
        self.everything();
    }

    /// The first row from `row` on that has an entry.
    fn row_from(&self, row: u32, rows: &RangeInclusive<u32>) -> Option<u32> {
        if row > *rows.end() {
            return None;
        }
        let last = Block { row: *rows.end(), column: Block::LAST };
        let range = IndexKey::first_in(self.known, Block { row, column: 0 })..=IndexKey::last_in(self.known, last);
        self.index.range(range).next().map(|key| key.block().row)
    }

    /// The last row below `row` that has an entry.
    fn row_below(&self, row: u32, rows: &RangeInclusive<u32>) -> Option<u32> {
        if row <= *rows.start() {
            return None;
        }
        let first = IndexKey::first_in(self.known, Block { row: *rows.start(), column: 0 });
        let range = first..IndexKey::first_in(self.known, Block { row, column: 0 });
        self.index.range(range).next_back().map(|key| key.block().row)
    }

    /// Looks along one row, away from the middle on both sides.
    fn row(&mut self, row: u32, columns: &RangeInclusive<u32>) {
        let middle = Block::from_cell(self.center).column.clamp(*columns.start(), *columns.end());
        let (index, known) = (self.index, self.known);
        let key = |column| IndexKey::first_in(known, Block { row, column });
        let dy = gap(row, self.center.y);
        let east = key(middle)..=IndexKey::last_in(self.known, Block { row, column: *columns.end() });
        for found in index.range(east) {
            if !self.may_be_within(dy, gap(found.block().column, self.center.x)) || self.is_spent() {
                break;
            }
            self.examine(*found);
        }
        let west = key(*columns.start())..key(middle);
        for found in index.range(west).rev() {
            if !self.may_be_within(dy, gap(found.block().column, self.center.x)) || self.is_spent() {
                break;
            }
            self.examine(*found);
        }
    }

    /// Reads through all entries of the service.
    fn everything(&mut self) {
        self.best.clear();
        self.before += std::mem::take(&mut self.examined);
        let first = Block { row: 0, column: 0 };
        let last = Block { row: Block::LAST, column: Block::LAST };
        for found in self.index.range(IndexKey::first_in(self.known, first)..=IndexKey::last_in(self.known, last)) {
            if self.is_spent() {
                return;
            }
            self.examine(*found);
        }
    }

    /// True if something this far away could still be among the best.
    fn may_be_within(&self, dy: u64, dx: u64) -> bool {
        dy * dy + dx * dx <= self.reach()
    }

    /// The square of the distance beyond which nothing counts any more.
    fn reach(&self) -> u64 {
        match (self.best.last(), self.query.area) {
            (Some(worst), _) if self.best.len() == self.query.count && self.is_beaten_by_distance(worst) => {
                worst.rank.distance_squared()
            }
            (_, Area::Radius { radius, .. }) => u64::from(radius) * u64::from(radius),
            _ => u64::MAX,
        }
    }

    /// True if only something nearer can take the place of the worst.
    fn is_beaten_by_distance(&self, worst: &Hit) -> bool {
        self.query.aim == SearchPurpose::List || worst.rank.is_free()
    }

    fn is_spent(&self) -> bool {
        self.examined >= MAX_EXAMINED
    }

    fn examine(&mut self, key: IndexKey) {
        let cell = key.cell();
        let near = self.center.distance_squared(cell) <= self.reach();
        if !near || !self.query.area.contains(cell) || self.is_spent() {
            return;
        }
        self.examined += 1;
        let is_admitted = self.admits.is_none_or(|admits| admits(cell));
        // The index knows neither names nor metadata.
        if is_admitted && self.query.means(self.directory.entry(key.slot()).services()) {
            self.rank(key);
        }
    }

    /// Providers of one cell without positions follow each other, and share the distance of its middle.
    fn meters(&mut self, entry: &DirectoryEntry<'_>) -> u32 {
        if self.query.viewpoint.is_none() {
            return 0;
        }
        let (cell, position) = (entry.cell(), entry.position());
        let known = self.middle.filter(|(of, _)| position.is_none() && *of == cell);
        let meters = known.map_or_else(|| self.query.meters(cell, position), |(_, meters)| meters);
        self.middle = if position.is_none() { Some((cell, meters)) } else { self.middle };
        meters
    }

    fn rank(&mut self, key: IndexKey) {
        let cell = key.cell();
        let entry: DirectoryEntry<'_> = self.directory.entry(key.slot());
        let (node, suspended) = (entry.node(), entry.is_suspended());
        if self.query.except == Some(node) || suspended && self.query.aim == SearchPurpose::List {
            return;
        }
        let rank = Rank::new(entry.services().flow_kind(self.query.service), self.center, cell, entry.capacity(), node);
        let rank = if suspended { rank.suspended() } else { rank }.at(self.meters(&entry));
        let hit = Hit { rank: rank.seen(&entry.slot.health, self.directory.now), slot: key.slot() };
        let place = self.best.partition_point(|better| better.rank.precedes(&hit.rank, self.query.aim));
        if place < self.query.count {
            self.best.truncate(self.query.count - 1);
            self.best.insert(place, hit);
        }
    }
}
