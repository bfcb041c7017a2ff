//! The page of a run, served while its records are read.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use roost_dashboard::{Feed, serve_run};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::description::{Description, ViewError};
use crate::follow::{FollowState, RunFollower};

/// The pause between two looks at the records of a run that goes on.
const PAUSE: Duration = Duration::from_millis(500);

/// Serves the page over the run in a folder until Ctrl-C, and follows a run that goes on. `tell` gets the address once
/// the page has what the folder has.
///
/// # Errors
/// Fails when the folder is no run or cannot be read, or the address is in use.
pub fn serve(folder: &Path, listen: SocketAddr, tell: impl FnOnce(SocketAddr)) -> Result<(), ViewError> {
    let description = Description::read(folder)?;
    let runtime = Runtime::new().map_err(ViewError::Serve)?;
    let listener = runtime.block_on(TcpListener::bind(listen)).map_err(ViewError::Serve)?;
    let bound = listener.local_addr().map_err(ViewError::Serve)?;
    let feed = Feed::of_run();
    let mut follower = RunFollower::new(&description, folder, feed.clone());
    let mut state = follower.advance()?;
    let (stop, stopped) = mpsc::channel();
    runtime.spawn(async move {
        let end = tokio::select! {
            served = serve_run(listener, feed) => served,
            _ = tokio::signal::ctrl_c() => Ok(()),
        };
        // The receiver is gone only when the reader has failed.
        let _ = stop.send(end);
    });
    tell(bound);
    loop {
        let ended = match state {
            FollowState::Running => stopped.recv_timeout(PAUSE),
            FollowState::Finished | FollowState::Full => {
                stopped.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected)
            }
        };
        match ended {
            Ok(end) => return end.map_err(ViewError::Serve),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => state = follower.advance()?,
        }
    }
}
