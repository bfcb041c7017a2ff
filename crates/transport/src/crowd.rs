//! Strangers whose handshakes are under way, and who gives way when there are
//! too many: a newcomer takes the place of the oldest who has sent nothing yet,
//! else of the oldest of all. So whoever speaks at once gets in, however many
//! others hold the line.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// All strangers of one transport.
#[derive(Debug)]
pub(crate) struct Crowd {
    limit: usize,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    last: u64,
    /// In the order of their coming. Whose entry goes has lost its place.
    silent: BTreeMap<u64, oneshot::Sender<Infallible>>,
    heard: BTreeMap<u64, oneshot::Sender<Infallible>>,
}

/// One stranger's place; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    number: u64,
    lost: oneshot::Receiver<Infallible>,
    crowd: Arc<Crowd>,
}

impl Crowd {
    /// Room for `limit` strangers, but for one at least.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit: limit.max(1), places: Mutex::default() })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// A place for a newcomer, who has said something or not; whether somebody
    /// else lost it for that.
    pub(crate) fn enter(self: &Arc<Self>, heard: bool) -> (Place, bool) {
        let (holder, lost) = oneshot::channel();
        let mut places = self.lock();
        let full = places.len() >= self.limit;
        if full && places.silent.pop_first().is_none() {
            places.heard.pop_first();
        }
        places.last += 1;
        let number = places.last;
        let whereto = if heard { &mut places.heard } else { &mut places.silent };
        whereto.insert(number, holder);
        (Place { number, lost, crowd: Arc::clone(self) }, full)
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn len(&self) -> usize {
        self.silent.len() + self.heard.len()
    }
}

impl Place {
    /// The stranger has said something.
    pub(crate) fn heard(&self) {
        let mut places = self.crowd.lock();
        if let Some(holder) = places.silent.remove(&self.number) {
            places.heard.insert(self.number, holder);
        }
    }

    /// Does `work` unless the place is lost before it is done.
    pub(crate) async fn hold<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            // Nothing is ever sent: the holder was dropped.
            _ = &mut self.lost => None,
            done = work => Some(done),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.crowd.lock();
        places.silent.remove(&self.number);
        places.heard.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn the_oldest_silent_one_gives_way_and_then_the_oldest() {
        let crowd = Crowd::new(2);
        let (mut first, _) = crowd.enter(true);
        let (mut silent, displaced) = crowd.enter(false);
        assert!(!displaced);
        let (third, displaced) = crowd.enter(false);
        assert!(displaced && crowd.len() == 2);
        assert_eq!(silent.hold(pending::<()>()).await, None);
        assert_eq!(first.hold(ready(1)).await, Some(1));
        third.heard();
        let (_fourth, displaced) = crowd.enter(false);
        assert!(displaced);
        assert_eq!(first.hold(pending::<()>()).await, None);
        drop((first, silent, third));
        assert_eq!(crowd.len(), 1);
    }
}
