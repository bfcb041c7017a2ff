//! Clients that connect to the gateway as to a server.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Input, Inputs, ServeError, connection};
use crate::endpoint::ListenAddress;

/// More clients than this belong at a server.
const MAX_CLIENTS: usize = 32;

/// Listens at all addresses, and starts a task for each.
pub(super) async fn listen(
    addresses: &[ListenAddress],
    inputs: &Inputs,
    tasks: &mut JoinSet<()>,
) -> Result<(), ServeError> {
    let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
    for ListenAddress(address) in addresses {
        let failed = |error: std::io::Error| ServeError::CannotListen {
            address: format!("tcp://{address}"),
            reason: error.to_string(),
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        // The machine is not there yet, so there is room.
        let _ = inputs.send(Input::Listening(format!("tcp://{bound}"))).await;
        tasks.spawn(accept(listener, Arc::clone(&clients), inputs.clone()));
    }
    Ok(())
}

async fn accept(listener: TcpListener, clients: Arc<Semaphore>, inputs: Inputs) {
    let mut serving = JoinSet::new();
    // A client that is one too many waits in the system's queue.
    while let Ok(permit) = Arc::clone(&clients).acquire_owned().await {
        let Ok((stream, from)) = listener.accept().await else {
            // No more files, say: a moment later there may be some.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        while serving.try_join_next().is_some() {}
        connection::keep_alive(&stream);
        let inputs = inputs.clone();
        serving.spawn(async move {
            let (id, name) = (connection::next_id(), format!("client {from}"));
            let reason = connection::run(id, name.clone(), stream, &inputs).await;
            drop(permit);
            // The gateway may have ended.
            let _ = inputs.send(Input::Down { id, name, reason, pause: None }).await;
        });
    }
}
