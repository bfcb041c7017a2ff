//! Connections of browsers, over TLS where that is on.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

const HANDSHAKE: Duration = Duration::from_secs(10);

/// The most handshakes at once; one more takes the place of the oldest.
const MAX_HANDSHAKES: usize = 128;

/// The most connections that wait to be served.
const MAX_WAITING: usize = 16;

/// The pause after the system could not accept a connection.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) trait PageStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> PageStream for T {}

/// The address at which a browser has reached this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnEnd(pub SocketAddr);

type Accepted = (Box<dyn PageStream>, OwnEnd);

pub(crate) struct PageListener {
    bound: SocketAddr,
    accepted: mpsc::Receiver<Accepted>,
}

impl PageListener {
    pub(crate) fn start(listener: TcpListener, tls: Option<Arc<ServerConfig>>) -> io::Result<Self> {
        let bound = listener.local_addr()?;
        let (sender, accepted) = mpsc::channel(MAX_WAITING);
        tokio::spawn(accept(listener, tls.map(TlsAcceptor::from), sender));
        Ok(Self { bound, accepted })
    }
}

/// Accepts connections until nobody serves them any more.
async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, sender: mpsc::Sender<Accepted>) {
    // The oldest first.
    let mut handshakes = VecDeque::<AbortHandle>::new();
    while !sender.is_closed() {
        let Ok((stream, own)) = next(&listener).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Some(tls) = tls.clone() else {
            let _ = sender.send((Box::new(stream), own)).await;
            continue;
        };
        handshakes.retain(|handshake| !handshake.is_finished());
        // Callers that open connections and say nothing make room for newer ones.
        if handshakes.len() >= MAX_HANDSHAKES
            && let Some(oldest) = handshakes.pop_front()
        {
            oldest.abort();
        }
        let sender = sender.clone();
        let handshake = tokio::spawn(async move {
            // A browser that does not know the certificate breaks off.
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(stream)).await {
                let _ = sender.send((Box::new(stream), own)).await;
            }
        });
        handshakes.push_back(handshake.abort_handle());
    }
}

async fn next(listener: &TcpListener) -> io::Result<(TcpStream, OwnEnd)> {
    let (stream, _) = listener.accept().await?;
    let own = OwnEnd(stream.local_addr()?);
    Ok((stream, own))
}

impl Listener for PageListener {
    type Io = Box<dyn PageStream>;
    type Addr = OwnEnd;

    async fn accept(&mut self) -> (Self::Io, OwnEnd) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            // The runtime ends.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<OwnEnd> {
        Ok(OwnEnd(self.bound))
    }
}
