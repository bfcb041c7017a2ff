//! The live page for browsers, and video for players, each on a thread of its own.
//!
//! They read the daemon over its local API as any other program, so that neither holds up the machine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use roost_api::Client;
use roost_dashboard::{Access, Feed, PageParts, serve};
use roost_identity::{Identity, tls};
use roost_players::rtsp::Rtsp;
use roost_players::{SharedStreams, Token};
use tokio::net::TcpListener;

use crate::config::Common;
use crate::failure::Failure;

/// The pause before another try to reach the daemon, which is just starting.
const PAUSE: Duration = Duration::from_millis(100);

/// The ports of the page and of players, open but not served yet.
pub(crate) struct OpenedPage {
    http: Option<std::net::TcpListener>,
    rtsp: Option<std::net::TcpListener>,
    access: Access,
    rtsp_token: Option<Token>,
    socket: PathBuf,
}

/// Opens the ports that the settings name.
pub(crate) fn open(common: &Common, identity: &Arc<Identity>) -> Result<OpenedPage, Failure> {
    let token = |file: Option<&Path>| file.map(Token::of_file).transpose().map_err(Failure::config);
    let (http_token, rtsp_token) = (token(common.http_token.as_deref())?, token(common.rtsp_token.as_deref())?);
    for (key, address, token) in [("http", common.http, &http_token), ("rtsp", common.rtsp, &rtsp_token)] {
        if let Some(address) = address.filter(is_open)
            && token.is_none()
        {
            return Err(Failure::config(format!(
                "{key} = {address} is open to other hosts: give {key}_token a file, in which the token for them is made"
            )));
        }
    }
    // On this host nobody listens in.
    let tls = common.http.filter(is_open).map(|_| tls::page_server(identity)).transpose().map_err(Failure::failed)?;
    let (http, rtsp) = (bind("http", common.http)?, bind("rtsp", common.rtsp)?);
    let access = Access { token: http_token, tls };
    Ok(OpenedPage { http, rtsp, access, rtsp_token, socket: common.socket.clone() })
}

const fn is_open(address: &SocketAddr) -> bool {
    !address.ip().is_loopback()
}

fn bind(key: &str, address: Option<SocketAddr>) -> Result<Option<std::net::TcpListener>, Failure> {
    let Some(address) = address else { return Ok(None) };
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map(Some).map_err(|error| Failure::failed(format!("cannot serve {key} on {address}: {error}")))
}

impl OpenedPage {
    /// Serves until the process ends. Pages with thousands of nodes do not hold up players.
    pub(crate) fn start(self) -> std::io::Result<()> {
        let Self { http, rtsp, access, rtsp_token, socket } = self;
        if let Some(listener) = http {
            let socket = socket.clone();
            start("page", async move { show(listener, reach(&socket).await, access).await })?;
        }
        if let Some(listener) = rtsp {
            start("players", async move { play(listener, reach(&socket).await, rtsp_token).await })?;
        }
        Ok(())
    }
}

fn start(name: &str, serving: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(serving)).map(drop)
}

/// The daemon, as soon as it serves its socket.
async fn reach(socket: &Path) -> Client {
    loop {
        match Client::connect(socket).await {
            Ok(client) => return client,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn show(listener: std::net::TcpListener, client: Client, access: Access) {
    let scheme = if access.tls.is_some() { "https" } else { "http" };
    let served = async {
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        tracing::info!("the live page is at {scheme}://{address}/");
        let feed = Feed::default();
        let parts = PageParts { access, ..PageParts::default() };
        tokio::select! {
            served = serve(listener, feed.clone(), client.clone(), parts) => served,
            () = feed.follow(client) => Ok(()),
        }
    };
    if let Err(error) = served.await {
        tracing::warn!(%error, "the live page is served no longer");
    }
}

async fn play(listener: std::net::TcpListener, client: Client, token: Option<Token>) {
    let served = async {
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        tracing::info!("players get video at rtsp://{address}/video/any");
        Rtsp::new(SharedStreams::new(client), token).serve(listener).await;
        Ok::<_, std::io::Error>(())
    };
    if let Err(error) = served.await {
        tracing::warn!(%error, "players are not served");
    }
}
