//! Connections that the gateway makes, again and again.

use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::tls::{TlsSetup, handshake};
use super::{Input, Inputs, connection, multicast};
use crate::endpoint::Endpoint;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn dial(endpoints: &[Endpoint], tls: Option<&TlsSetup>, inputs: &Inputs, tasks: &mut JoinSet<()>) {
    for endpoint in endpoints {
        tasks.spawn(keep(endpoint.clone(), tls.cloned(), inputs.clone()));
    }
}

/// Keeps a connection: each attempt that fails is followed by a longer pause.
async fn keep(endpoint: Endpoint, tls: Option<TlsSetup>, inputs: Inputs) {
    let mut pause = FIRST_PAUSE;
    loop {
        let (id, began) = (connection::next_id(), Instant::now());
        let ended = once(id, &endpoint, tls.as_ref(), &inputs).await;
        let name = endpoint.to_string();
        let input = match ended {
            Ok(reason) => {
                if began.elapsed() > LONGEST_PAUSE {
                    pause = FIRST_PAUSE;
                }
                Input::Down { id, name, reason, pause: Some(pause) }
            }
            Err(reason) => Input::Failed { name, reason, pause },
        };
        if inputs.send(input).await.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Connects once, and returns the reason of the end; an error if there was no connection.
async fn once(
    id: crate::contacts::ConnectionId,
    endpoint: &Endpoint,
    tls: Option<&TlsSetup>,
    inputs: &Inputs,
) -> Result<String, String> {
    let name = endpoint.to_string();
    match endpoint {
        Endpoint::Tcp { address } => {
            let stream = within(connect(address)).await?;
            Ok(connection::run(id, name, stream, inputs).await)
        }
        Endpoint::Tls { address, name: server } => {
            let tls = tls.ok_or("tls:// needs --ca")?;
            let stream = within(async { handshake(tls, server, connect(address).await?).await }).await?;
            Ok(connection::run(id, name, stream, inputs).await)
        }
        Endpoint::Multicast { group, interface } => {
            let joined = multicast::join(*group, *interface).map_err(|error| error.to_string())?;
            Ok(multicast::run(id, name, joined, inputs).await)
        }
    }
}

async fn within<T>(attempt: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let silent = || format!("it did not answer within {} s", CONNECT_TIMEOUT.as_secs());
    tokio::time::timeout(CONNECT_TIMEOUT, attempt).await.map_err(|_| silent())?
}

async fn connect(address: &str) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    connection::keep_alive(&stream);
    Ok(stream)
}
