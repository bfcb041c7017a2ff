//! Callers that hold what they do not use.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream;
use roost_api::server::{CallerLimits, serve, with_fallback};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

const CONNECTIONS: usize = 4;

struct Server {
    folder: TempDir,
}

impl Server {
    fn start(router: Router) -> Self {
        Self::limited(router, CallerLimits { connections: CONNECTIONS, ..CallerLimits::LOCAL })
    }

    fn limited(router: Router, limits: CallerLimits) -> Self {
        let folder = TempDir::new().unwrap();
        let listener = UnixListener::bind(folder.path().join("sock")).unwrap();
        tokio::spawn(serve(listener, with_fallback(router), limits, pending()));
        Self { folder }
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.folder.path().join("sock")).await.unwrap()
    }

    async fn ask(&self, request: &str) -> UnixStream {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }
}

fn here() -> Router {
    Router::new().route("/here", get(|| async { "here" })).route("/wait", get(pending::<()>))
}

const HERE: &str = "GET /here HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
const WAIT: &str = "GET /wait HTTP/1.1\r\nhost: x\r\n\r\n";

async fn read(mut stream: UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn silent_callers_give_way() {
    let server = Server::start(here());
    let mut silent = Vec::new();
    for _ in 0..5 * CONNECTIONS {
        silent.push(server.connect().await);
    }
    let answer = timeout(Duration::from_secs(10), async { read(server.ask(HERE).await).await });
    assert!(answer.await.unwrap().ends_with("here"));
    // The oldest has gone.
    assert_eq!(silent[0].read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn answered_callers_are_silent_again() {
    let server = Server::start(here());
    let waiting = server.ask(WAIT).await;
    let mut idle = Vec::new();
    for _ in 0..5 * CONNECTIONS {
        let mut stream = server.ask(&HERE.replace("connection: close\r\n", "")).await;
        let mut answer = vec![0; 1024];
        let length = timeout(Duration::from_secs(10), stream.read(&mut answer)).await.unwrap().unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(answer.contains("content-length: 4\r\n") && answer.ends_with("here"), "{answer}");
        idle.push(stream);
    }
    assert_eq!(timeout(Duration::from_secs(10), idle[0].read(&mut [0])).await.unwrap().unwrap(), 0);
    // A caller that is answered keeps the place.
    assert!(timeout(Duration::from_millis(100), read(waiting)).await.is_err());
}

#[tokio::test]
async fn excess_caller_is_refused() {
    let server = Server::start(here());
    let mut waiting = Vec::new();
    for _ in 0..CONNECTIONS {
        waiting.push(server.ask(WAIT).await);
    }
    let told = loop {
        let answer = read(server.ask(HERE).await).await;
        // The server may not have read the requests of the others yet.
        if !answer.ends_with("here") {
            break answer;
        }
    };
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("too many are connected"), "{told}");
    drop(waiting);
    let answered = async {
        while !read(server.ask(HERE).await).await.ends_with("here") {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), answered).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nobody_is_silent_for_ever() {
    let server = Server::start(here().route("/body", post(|_: Bytes| async { "read" })));
    for begun in ["", "GET /he", "POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n12"] {
        let began = Instant::now();
        let answer = read(server.ask(begun).await).await;
        assert!(!answer.contains("200 OK"), "{begun}: {answer}");
        assert!(began.elapsed() <= Duration::from_secs(61), "{begun}: {:?}", began.elapsed());
    }
}

/// Tells when an answer is given up.
struct Answer(mpsc::UnboundedSender<()>);

impl Drop for Answer {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test(start_paused = true)]
async fn an_unread_answer_ends() {
    let (told, mut ended) = mpsc::unbounded_channel();
    let endless = move || {
        let more = |answer| async move { Some((Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 4096])), answer)) };
        let body = Body::from_stream(stream::unfold(Answer(told.clone()), more));
        async { body }
    };
    let server = Server::start(Router::new().route("/endless", get(endless)));
    let began = Instant::now();
    let unread = server.ask("GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await;
    timeout(Duration::from_secs(3600), ended.recv()).await.unwrap().unwrap();
    assert!(began.elapsed() >= Duration::from_secs(60), "{:?}", began.elapsed());
    drop(unread);
}

#[tokio::test]
async fn documents_may_be_longer_than_other_bodies() {
    // An extractor of bytes has a limit of its own.
    let length = |request: Request| async move {
        axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap().len().to_string()
    };
    let server = Server::start(Router::new().route("/v1/documents", post(length)).route("/other", post(length)));
    let body = " ".repeat(5 << 20);
    for (path, status) in [("/v1/documents?kind=revocations", "200"), ("/other", "413")] {
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        let mut stream = server.ask(&head).await;
        // A server that refuses a body does not read all of it.
        let _ = stream.write_all(body.as_bytes()).await;
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(&start[9..], status.as_bytes(), "{path}");
    }
}

#[tokio::test]
async fn public_port_reads_no_body() {
    let server = Server::limited(here().route("/v1/documents", post(|| async { "read" })), CallerLimits::PUBLIC);
    assert!(read(server.ask(HERE).await).await.ends_with("here"));
    for path in ["/here", "/v1/documents"] {
        let request =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 9\r\n\r\na body = ");
        let answer = read(server.ask(&request).await).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{path}: {answer}");
    }
}
