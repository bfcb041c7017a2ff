//! A stream of bytes with a server or a client.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::{Input, Inputs, OUTLET};
use crate::contacts::ConnectionId;
use crate::gateway::Carriage;

/// A remote that takes no bytes for this time has gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// The idle time before TCP asks for a sign of life.
const QUIET: Duration = Duration::from_secs(20);
const PIECE_BYTES: usize = 16 * 1024;
const CLOSED: &str = "it closed the connection";

/// A number that no connection of this program had before.
pub(super) fn next_id() -> ConnectionId {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    ConnectionId(NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(super) fn keep_alive(stream: &TcpStream) {
    // Without it a host that vanished is seen later, by the next writes.
    let _ = SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(QUIET).with_interval(QUIET));
    let _ = stream.set_nodelay(true);
}

/// Tells the machine of a connection, and passes bytes until its end. Returns the reason.
pub(super) async fn run(
    id: ConnectionId,
    name: String,
    stream: impl AsyncRead + AsyncWrite,
    inputs: &Inputs,
) -> String {
    let (outlet, events) = mpsc::channel(OUTLET);
    let up = Input::Up { id, name, carriage: Carriage::Stream, outlet };
    if inputs.send(up).await.is_err() {
        return "the gateway ends".to_owned();
    }
    let (from, to) = tokio::io::split(stream);
    tokio::select! {
        reason = read(id, from, inputs) => reason,
        reason = write(to, events, inputs) => reason,
    }
}

async fn read(id: ConnectionId, mut from: impl AsyncRead + Unpin, inputs: &Inputs) -> String {
    loop {
        let mut bytes = BytesMut::with_capacity(PIECE_BYTES);
        match from.read_buf(&mut bytes).await {
            Ok(0) => return CLOSED.to_owned(),
            Ok(_) => {}
            Err(error) => return end_sentence(&error),
        }
        if inputs.send(Input::Received { id, address: None, bytes: bytes.freeze() }).await.is_err() {
            return "the gateway ends".to_owned();
        }
    }
}

async fn write(mut to: impl AsyncWrite + Unpin, mut events: mpsc::Receiver<Bytes>, inputs: &Inputs) -> String {
    while let Some(event) = events.recv().await {
        let written = async {
            to.write_all(&event).await?;
            to.flush().await
        };
        match tokio::time::timeout(WRITE_PATIENCE, written).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return end_sentence(&error),
            Err(_) => return format!("it took no bytes for {} s", WRITE_PATIENCE.as_secs()),
        }
        if inputs.send(Input::Written).await.is_err() {
            break;
        }
    }
    "the gateway ends".to_owned()
}

/// A remote that ends with unread bytes resets the connection instead of closing it; TLS may lack its farewell.
fn end_sentence(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => CLOSED.to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn end_with_unread_bytes_is_close() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"unread").await.unwrap();
        client.readable().await.unwrap();
        drop(client);
        let (inputs, mut kept) = mpsc::channel(4);
        let reason = run(next_id(), "client".to_owned(), stream, &inputs).await;
        assert_eq!(reason, CLOSED);
        assert!(matches!(kept.recv().await, Some(Input::Up { .. })));
    }
}
