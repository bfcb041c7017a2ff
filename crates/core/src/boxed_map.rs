//! An ordered map whose values lie on the heap.

use std::collections::BTreeMap;

/// For large values. A B-tree's leaf has room for eleven: a node seldom has more than two, and a hub leaves half of the
/// room empty.
#[derive(Debug)]
pub(crate) struct BoxedMap<K, V>(BTreeMap<K, Box<V>>);

impl<K, V> Default for BoxedMap<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, V> BoxedMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key).map(Box::as_mut)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, Box::new(value)).map(|before| *before)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key).map(|value| *value)
    }

    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.0.keys()
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.0.values().map(Box::as_ref)
    }

    pub(crate) fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.0.values_mut().map(Box::as_mut)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value.as_ref()))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.0.iter_mut().map(|(key, value)| (key, value.as_mut()))
    }
}

impl<K: Ord, V> IntoIterator for BoxedMap<K, V> {
    type Item = (K, V);
    type IntoIter = std::iter::Map<std::collections::btree_map::IntoIter<K, Box<V>>, fn((K, Box<V>)) -> (K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(|(key, value)| (key, *value))
    }
}
