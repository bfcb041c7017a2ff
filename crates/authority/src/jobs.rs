//! Work on the group's folder, which blocks: on few threads at once, whoever asks.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// More threads than a disk serves at once would only wait for it.
const MAX_JOBS: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Jobs(Arc<Semaphore>);

impl Jobs {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_JOBS)))
    }

    /// Runs `action` when a thread is free; `None` if it failed. An action that has begun keeps its place even if nobody
    /// waits for it any more.
    pub(crate) async fn run<T: Send + 'static>(&self, action: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let place = Arc::clone(&self.0).acquire_owned().await.ok()?;
        let work = move || {
            let _place = place;
            action()
        };
        spawn_blocking(work).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn abandoned_work_keeps_its_place() {
        let jobs = Jobs::new();
        let (end, blocked) = channel::<()>();
        let blocked = Arc::new(std::sync::Mutex::new(blocked));
        for _ in 0..MAX_JOBS {
            let blocked = Arc::clone(&blocked);
            let job = jobs.run(move || drop(blocked.lock().map(|blocked| blocked.recv())));
            tokio::time::timeout(Duration::from_millis(1), job).await.unwrap_err();
        }
        assert_eq!(jobs.0.available_permits(), 0);
        drop(end);
        assert_eq!(jobs.run(|| 7).await, Some(7));
    }
}
