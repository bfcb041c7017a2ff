//! Places on the grid for hosts and LANs that have no cell: between those of their neighbors.

use std::collections::BTreeSet;

use crate::disks::Spot;

/// The distance, in cells, by which a host without a cell steps aside for another.
const STEP: f64 = 0.6;

/// The spots of all vertices, in cells. A vertex that no link joins to a cell has none.
pub fn ground(cells: &[Option<Spot>], neighbors: &[Vec<usize>]) -> Vec<Option<Spot>> {
    let mut spots = cells.to_vec();
    let mut taken: BTreeSet<(i64, i64)> = spots.iter().flatten().map(|spot| tenths(*spot)).collect();
    let mut open: Vec<usize> = (0..spots.len()).filter(|vertex| spots[*vertex].is_none()).collect();
    loop {
        // Each round goes one link farther from the cells.
        let found: Vec<(usize, Spot)> = open.iter().filter_map(|v| Some((*v, mean(&neighbors[*v], &spots)?))).collect();
        if found.is_empty() {
            return spots;
        }
        for (vertex, mut spot) in found {
            while !taken.insert(tenths(spot)) {
                spot.y += STEP;
            }
            spots[vertex] = Some(spot);
        }
        open.retain(|vertex| spots[*vertex].is_none());
    }
}

fn mean(neighbors: &[usize], spots: &[Option<Spot>]) -> Option<Spot> {
    let known: Vec<Spot> = neighbors.iter().filter_map(|neighbor| spots[*neighbor]).collect();
    let sum = known.iter().copied().reduce(Spot::plus)?;
    let count = known.len() as f64;
    Some(Spot { x: sum.x / count, y: sum.y / count })
}

fn tenths(spot: Spot) -> (i64, i64) {
    ((spot.x * 10.0).round() as i64, (spot.y * 10.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_without_cells_stand_between_neighbors() {
        // A hub on a LAN of two nodes with cells, and a host behind the hub.
        let neighbors = [vec![2], vec![2], vec![0, 1, 3], vec![2, 4], vec![3], vec![]];
        let at = |x, y| Some(Spot { x, y });
        let spots = ground(&[at(0.0, 0.0), at(4.0, 2.0), None, None, None, None], &neighbors);
        assert_eq!(spots, [at(0.0, 0.0), at(4.0, 2.0), at(2.0, 1.0), at(2.0, 1.6), at(2.0, 2.2), None]);
    }
}
