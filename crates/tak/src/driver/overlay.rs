//! News of the daemon: changes of nodes, the state of this node, and requests for contacts.

use std::time::Duration;

use roost_client::{Offering, Roost, WatchStream};
use tokio::task::JoinSet;

use super::{Input, Inputs, ServeError};

/// The pause between two looks at this node.
const STATUS_PAUSE: Duration = Duration::from_secs(10);

pub(super) struct Overlay {
    pub(super) roost: Roost,
    pub(super) inputs: Inputs,
}

impl Overlay {
    pub(super) fn follow(self, offering: Offering, changes: WatchStream, tasks: &mut JoinSet<()>) {
        let Self { roost, inputs } = self;
        tasks.spawn(report_end(watch(changes, inputs.clone()), inputs.clone()));
        tasks.spawn(report_end(serve(offering, inputs.clone()), inputs.clone()));
        tasks.spawn(report_end(look(roost, inputs.clone()), inputs));
    }
}

/// Tells the machine why a task has ended.
async fn report_end(task: impl Future<Output = ServeError>, inputs: Inputs) {
    let ended = task.await;
    // The machine may have ended first.
    let _ = inputs.send(Input::Ended(ended)).await;
}

async fn watch(mut changes: WatchStream, inputs: Inputs) -> ServeError {
    loop {
        let input = match changes.next().await {
            Ok(Some(change)) => Input::Watch(change),
            Ok(None) => return ServeError::Leaving("watch"),
            Err(error) => return ServeError::Daemon(error),
        };
        if inputs.send(input).await.is_err() {
            return ServeError::Leaving("gateway");
        }
    }
}

async fn serve(mut offering: Offering, inputs: Inputs) -> ServeError {
    loop {
        let input = match offering.next().await {
            Ok(Some(request)) => Input::Request(request),
            Ok(None) => return ServeError::Leaving("offer"),
            Err(error) => return error.into(),
        };
        if inputs.send(input).await.is_err() {
            return ServeError::Leaving("gateway");
        }
    }
}

async fn look(roost: Roost, inputs: Inputs) -> ServeError {
    loop {
        tokio::time::sleep(STATUS_PAUSE).await;
        let input = match roost.status().await {
            Ok(status) => Input::Status(Box::new(status)),
            Err(error) => return error.into(),
        };
        if inputs.send(input).await.is_err() {
            return ServeError::Leaving("gateway");
        }
    }
}
