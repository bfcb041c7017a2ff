//! A path of a connection: a QUIC connection whose streams carry chunks in both directions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::{FuturesUnordered, StreamExt};
use quinn::{Connection, ConnectionError, ReadToEndError, RecvStream, SendStream, VarInt};
use tokio::sync::mpsc::UnboundedReceiver;

use super::allowance::Allowance;
use super::connection::QuicConnection;
use crate::multipath::{CopyId, MAX_CHUNK_BYTES, PathId};

pub(super) enum PathCommand {
    Transmit { copy: CopyId, content: [Bytes; 2], priority: i32 },
    Cancel(CopyId),
}

/// Runs a path until its QUIC connection is over. `busy` is dropped then.
pub(super) async fn drive_path(
    connection: Arc<QuicConnection>,
    id: PathId,
    quinn_connection: Connection,
    commands: UnboundedReceiver<PathCommand>,
    busy: Arc<()>,
) {
    let read = async {
        // Each ends after it has delivered everything that arrived before the end.
        let (error, ()) =
            tokio::join!(read_streams(&connection, &quinn_connection), read_datagrams(&connection, &quinn_connection));
        error
    };
    tokio::pin!(read);
    let error = tokio::select! {
        error = &mut read => error,
        () = write(&connection, id, &quinn_connection, commands) => read.await,
    };
    connection.lose_path(id, &error);
    drop(busy);
}

/// Carries out the commands, and reports acknowledged streams to the connection.
async fn write(
    connection: &QuicConnection,
    id: PathId,
    quinn_connection: &Connection,
    mut commands: UnboundedReceiver<PathCommand>,
) {
    let mut leaving = FuturesUnordered::new();
    let mut copies: HashMap<CopyId, AbortHandle> = HashMap::new();
    loop {
        tokio::select! {
            order = commands.recv() => match order {
                Some(PathCommand::Transmit { copy, content, priority }) => {
                    let (handle, registration) = AbortHandle::new_pair();
                    copies.insert(copy, handle);
                    let transmission = Abortable::new(transmit(quinn_connection, content, priority), registration);
                    leaving.push(async move { (copy, transmission.await) });
                }
                Some(PathCommand::Cancel(copy)) => {
                    if let Some(copy) = copies.remove(&copy) {
                        copy.abort();
                    }
                }
                None => return,
            },
            Some((copy, outcome)) = leaving.next() => {
                copies.remove(&copy);
                if outcome == Ok(true) {
                    connection.apply(|state, now| state.acknowledged(now, id, copy));
                }
            }
        }
    }
}

/// Sends a chunk on a stream of its own. Returns true if the remote has received all of it.
async fn transmit(quinn_connection: &Connection, mut content: [Bytes; 2], priority: i32) -> bool {
    let Ok(stream) = quinn_connection.open_uni().await else { return false };
    let mut stream = Unfinished(stream);
    let is_sent = stream.0.set_priority(priority).is_ok()
        && stream.0.write_all_chunks(&mut content).await.is_ok()
        && stream.0.finish().is_ok();
    is_sent && matches!(stream.0.stopped().await, Ok(None))
}

/// Resets its stream when it is dropped before the acknowledgement. After the acknowledgement a reset does nothing.
struct Unfinished(SendStream);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = self.0.reset(VarInt::from_u32(0));
    }
}

async fn read_datagrams(connection: &QuicConnection, quinn_connection: &Connection) {
    while let Ok(message) = quinn_connection.read_datagram().await {
        let _turn = connection.turn.lock().await;
        connection.deliver(message).await;
    }
}

/// Reads streams concurrently until the QUIC connection is over and everything that arrived is delivered. While a
/// message waits for room, nothing is read.
async fn read_streams(connection: &QuicConnection, quinn_connection: &Connection) -> ConnectionError {
    let mut reading = FuturesUnordered::new();
    let mut allowance = Allowance::new(Instant::now());
    let mut over = None;
    loop {
        tokio::select! {
            accepted = quinn_connection.accept_uni(), if over.is_none() => match accepted {
                Ok(stream) => {
                    if let Some(most) = allowance.note_opened(Instant::now(), quinn_connection.rtt()) {
                        quinn_connection.set_max_concurrent_uni_streams(VarInt::from_u32(most));
                    }
                    reading.push(read_stream(stream));
                }
                Err(error) => over = Some(error),
            },
            Some(read) = reading.next() => match read {
                Ok(chunk) => connection.receive(&chunk.into()).await,
                Err(ReadToEndError::TooLong) => connection.violated(),
                // The remote has reset the stream, or the QUIC connection is over.
                Err(ReadToEndError::Read(_)) => {}
            },
            else => return over.unwrap_or(ConnectionError::LocallyClosed),
        }
    }
}

async fn read_stream(mut stream: RecvStream) -> Result<Vec<u8>, ReadToEndError> {
    stream.read_to_end(MAX_CHUNK_BYTES).await
}
