use std::sync::Arc;

use super::*;
use crate::outbox::elapsed::NOTE_PAUSE;

const HOUR_S: u64 = 3_600;

/// The time that passed, and the date.
#[derive(Clone, Debug, Default)]
struct SettableClock(Arc<Mutex<(Duration, Duration)>>);

impl SettableClock {
    fn pass(&self, time: Duration) {
        let mut times = self.0.lock().unwrap();
        *times = (times.0 + time, times.1 + time);
    }

    fn set_date(&self, seconds: u64) {
        self.0.lock().unwrap().1 = Duration::from_secs(seconds);
    }
}

impl Clock for SettableClock {
    fn passed(&self) -> Duration {
        self.0.lock().unwrap().0
    }

    fn date(&self) -> Duration {
        self.0.lock().unwrap().1
    }
}

fn loaded(folder: &Path, limit: u64, clock: &SettableClock) -> (Store, Vec<(DeliveryId, StoredDelivery)>) {
    let store = Store::new(folder.to_owned(), limit, clock.clone());
    let waiting = store.load().unwrap();
    (store, waiting)
}

fn delivery(bytes: u64) -> StoredDelivery {
    StoredDelivery {
        to: "uav7".to_owned(),
        node: None,
        addresses: Vec::new(),
        name: "site.tif".to_owned(),
        bytes,
        sha256: String::new(),
        priority: Priority::Normal,
        since_s: 1,
        until_s: 2,
        left_s: 1,
        left_at_s: 0,
        tries: 0,
        end: None,
    }
}

fn id(number: u8) -> DeliveryId {
    DeliveryId::from_bytes([number; 8])
}

fn ended() -> EndNote {
    EndNote { state: OutboxState::Delivered, why: None, at_s: 3 }
}

#[test]
fn restart_finds_whole_files_only() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SettableClock::default());
    let (store, _) = loaded(folder.path(), 100, &clock);
    for number in 1..=3 {
        fs::write(store.data_path(id(number)), "x").unwrap();
    }
    store.write(id(1), delivery(1)).unwrap();
    store.write(id(2), delivery(1)).unwrap();
    store.end(id(2), ended()).unwrap();
    let (again, waiting) = loaded(folder.path(), 100, &clock);
    assert_eq!(waiting.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), [id(1)]);
    assert!(again.data_path(id(1)).exists() && !again.data_path(id(3)).exists());
    assert!(again.get(id(2)).is_some_and(|ended| ended.end.is_some()));
}

#[test]
fn room_is_given_back() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SettableClock::default());
    let (store, _) = loaded(folder.path(), 10, &clock);
    let first = store.reserve(8).unwrap();
    assert_eq!(store.reserve(3).map(drop), Err(ReserveError::Full));
    drop(first);
    store.reserve(10).unwrap().keep();
    assert_eq!(store.reserve(1).map(drop), Err(ReserveError::Full));
}

#[test]
fn files_under_way_count() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SettableClock::default());
    let (store, _) = loaded(folder.path(), 10, &clock);
    let mut under_way: Vec<_> = (0..MAX_OUTBOX).map(|_| store.reserve(0).unwrap()).collect();
    assert_eq!(store.reserve(0).map(drop), Err(ReserveError::Full));
    under_way.pop();
    assert!(store.reserve(0).is_ok());
}

#[test]
fn unread_folder_takes_no_file() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("file");
    fs::write(&folder, "").unwrap();
    let store = Store::new(folder, 10, SettableClock::default());
    assert!(store.load().is_err());
    assert_eq!(store.reserve(1).map(drop), Err(ReserveError::Unread));
}

#[test]
fn discarded_file_leaves_nothing() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SettableClock::default());
    let (store, _) = loaded(folder.path(), 10, &clock);
    fs::write(store.data_path(id(1)), "x").unwrap();
    store.write(id(1), delivery(1)).unwrap();
    store.discard(id(1)).unwrap();
    store.discard(id(2)).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(store.get(id(1)).is_none() && loaded(folder.path(), 10, &clock).1.is_empty());
}

/// A delivery of 24 hours, of which 20 pass, before the date goes back and the daemon is killed.
#[test]
fn date_that_went_back_lengthens_no_life() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SettableClock::default());
    clock.set_date(1_000_000);
    let (store, _) = loaded(folder.path(), 10, &clock);
    let (day, until_s) = (Duration::from_secs(24 * HOUR_S), 1_000_000 + 24 * HOUR_S);
    store.write(id(1), store.noted(StoredDelivery { until_s, ..delivery(1) }, day)).unwrap();
    clock.pass(Duration::from_secs(20 * HOUR_S));
    store.note_elapsed().unwrap();
    clock.pass(NOTE_PAUSE - Duration::from_secs(1));
    clock.set_date(5);
    let (again, waiting) = loaded(folder.path(), 10, &clock);
    assert_eq!(again.left(&waiting[0].1), Duration::from_secs(4 * HOUR_S));
    clock.pass(Duration::from_secs(HOUR_S));
    assert_eq!(again.left(&waiting[0].1), Duration::from_secs(3 * HOUR_S));
}

#[test]
fn lost_note_of_time_goes_on_from_files() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SettableClock::default());
    let (store, _) = loaded(folder.path(), 10, &clock);
    clock.pass(Duration::from_secs(HOUR_S));
    let left = Duration::from_secs(600);
    store.write(id(1), store.noted(StoredDelivery { until_s: u64::MAX, ..delivery(1) }, left)).unwrap();
    let (again, waiting) = loaded(folder.path(), 10, &clock);
    clock.pass(Duration::from_secs(60));
    assert_eq!(again.left(&waiting[0].1), Duration::from_secs(540));
}

#[test]
fn date_that_went_ahead_ends_by_the_date() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), SettableClock::default());
    let (store, _) = loaded(folder.path(), 10, &clock);
    let held = store.noted(StoredDelivery { until_s: 1_900, ..delivery(1) }, Duration::from_secs(950));
    for (date, left) in [(1_000, 900), (5, 950), (2_000, 0)] {
        clock.set_date(date);
        assert_eq!(store.left(&held).as_secs(), left);
    }
    let endless = store.noted(StoredDelivery { until_s: u64::MAX, ..held }, Duration::MAX);
    assert_eq!(store.left(&endless).as_secs(), u64::from(MAX_DELIVERY_S));
}
