//! A table of names in the order in which Tcl's own hash tables list them.
//!
//! `array names` and `array get` list a table bucket by bucket, and files build networks in that order, so it
//! must be Tcl's: buckets that grow fourfold, the hash of `tclHash.c` (nine times the last, plus a byte), new
//! entries first in their bucket.

use std::collections::HashMap;

/// Buckets of a new table.
const FIRST_BUCKETS: usize = 4;
/// The load, in entries for each bucket, at which the table grows.
const PER_BUCKET: usize = 3;

#[derive(Clone, Debug)]
pub(crate) struct Table<V> {
    entries: HashMap<String, V>,
    buckets: Vec<Vec<String>>,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), buckets: Vec::new() }
    }
}

impl<V> Table<V> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&V> {
        self.entries.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    /// Stores `value` under `key`; true if the key is new.
    pub(crate) fn insert(&mut self, key: &str, value: V) -> bool {
        if let Some(old) = self.entries.get_mut(key) {
            *old = value;
            return false;
        }
        self.entries.insert(key.to_owned(), value);
        if self.buckets.is_empty() {
            self.buckets.resize_with(FIRST_BUCKETS, Vec::new);
        }
        let bucket = hash(key) & (self.buckets.len() - 1);
        // The newest entry of a bucket is stored last and listed first.
        self.buckets[bucket].push(key.to_owned());
        if self.entries.len() >= self.buckets.len() * PER_BUCKET {
            self.grow();
        }
        true
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<V> {
        let value = self.entries.remove(key)?;
        let bucket = hash(key) & (self.buckets.len() - 1);
        self.buckets[bucket].retain(|other| other != key);
        Some(value)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.buckets.iter().flat_map(|bucket| bucket.iter().rev().map(String::as_str))
    }

    fn grow(&mut self) {
        let mut old = std::mem::take(&mut self.buckets);
        self.buckets.resize_with(old.len() * 4, Vec::new);
        for key in old.iter_mut().flat_map(|bucket| bucket.drain(..).rev()) {
            let bucket = hash(&key) & (self.buckets.len() - 1);
            self.buckets[bucket].push(key);
        }
    }
}

fn hash(key: &str) -> usize {
    let mut bytes = key.bytes();
    let first = u32::from(bytes.next().unwrap_or(0));
    let hash = bytes.fold(first, |hash, byte| hash.wrapping_mul(9).wrapping_add(byte.into()));
    // Fits usize: the hash is a u32.
    hash as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected orders are the output of `array names` in tclsh 8.6.13.
    #[test]
    fn names_are_listed_like_tclsh() {
        let listed = |names: &[&str]| {
            let mut table = Table::default();
            names.iter().for_each(|name| {
                table.insert(name, ());
            });
            table.keys().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(listed(&["a", "b", "c", "server", "client", "n1", "n2", "n3"]), "n2 n3 a b n1 client server c");
        let numbers: Vec<String> = (0..14).map(|number| number.to_string()).collect();
        let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
        assert_eq!(listed(&numbers), "0 1 2 3 4 5 6 7 8 9 10 11 12 13");
        let nodes: Vec<String> = (0..60).map(|number| format!("n{number}")).collect();
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        assert!(listed(&nodes).starts_with("n19 n20 n21 n22 n23 n24 n25 n26 n27 n28 n29 n30 n31 n32 n33 n34 n0 n35"));
        assert!(
            listed(&nodes).ends_with("n50 n49 n51 n52 n53 n54 n55 n56 n57 n58 n59 n10 n11 n12 n13 n14 n15 n16 n17 n18")
        );
    }

    #[test]
    fn removed_names_are_not_listed() {
        let mut table = Table::default();
        assert!(table.insert("a", 1) && table.insert("b", 2) && !table.insert("a", 3));
        assert_eq!((table.remove("a"), table.remove("a"), table.len()), (Some(3), None, 1));
        assert_eq!(table.keys().collect::<Vec<_>>(), ["b"]);
    }
}
