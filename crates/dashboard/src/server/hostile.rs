//! Requests that no browser of ours sends: each is answered, with the headers that protect, and none ends the server.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use axum::{Extension, Router};
use http_body_util::{BodyExt, Limited};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use roost_api::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;

use super::{Door, PageParts, Served, behind, routes, serve};
use crate::access::Access;
use crate::feed::Feed;
use crate::guard;
use crate::listener::OwnEnd;
use crate::media::Media;
use crate::tiles::Tiles;
use crate::trace::Tracer;

const LONGEST: Duration = Duration::from_secs(20);

const PATHS: [&str; 13] = [
    "/",
    "/index.html",
    "/api/events",
    "/api/history",
    "/api/lookup",
    "/api/page",
    "/api/tiles",
    "/api/trace",
    "/api/video",
    "/api/video/0",
    "/api/records",
    "/api/object",
    "/../../../etc/passwd",
];

/// A server over a daemon that answers nonsense.
struct Bench {
    runtime: Runtime,
    client: Client,
    folder: tempfile::TempDir,
}

#[derive(Clone, Debug)]
struct Sent {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Bench {
    fn start(answers: &'static [&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let socket = folder.path().join("daemon.sock");
        let client = runtime.block_on(async {
            let listener = UnixListener::bind(&socket).unwrap();
            tokio::spawn(answer_nonsense(listener, answers));
            Client::connect(&socket).await.unwrap()
        });
        Self { runtime, client, folder }
    }

    fn served(&self) -> Served {
        let file = self.folder.path().join("map.pmtiles");
        std::fs::write(&file, [b"PMTiles\x03".as_slice(), &[7; 100_000]].concat()).unwrap();
        let patience = Duration::from_millis(100);
        let tracer = Tracer::new(self.client.clone(), patience);
        let parts = PageParts { tiles: Some(Tiles::open(&file).unwrap()), ..PageParts::default() };
        let (client, media) = (self.client.clone(), Media::new(self.client.clone(), patience));
        Served { feed: Feed::default(), client, parts, tracer, media, patience }
    }

    /// The routes, as a browser of this machine reaches them.
    fn routes(&self) -> Router {
        let bound = "127.0.0.1:7790".parse().unwrap();
        let door = Door { bound, access: Access::default() };
        behind(door, routes(self.served())).layer(Extension(OwnEnd(bound)))
    }

    fn listen(&self) -> SocketAddr {
        let client = self.client.clone();
        self.runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let bound = listener.local_addr().unwrap();
            tokio::spawn(serve(listener, Feed::default(), client, PageParts::default()));
            bound
        })
    }
}

async fn answer_nonsense(listener: UnixListener, answers: &'static [&'static str]) {
    for answer in answers.iter().cycle() {
        let Ok((mut caller, _)) = listener.accept().await else { return };
        tokio::spawn(async move {
            let _ = caller.read(&mut [0; 4096]).await;
            let _ = caller.write_all(answer.as_bytes()).await;
            if answer.is_empty() {
                std::future::pending::<()>().await;
            }
        });
    }
}

const NONSENSE: &[&str] = &[
    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    "HTTP/1.1 200 OK\r\ncontent-length: 200\r\n\r\n{",
    "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"schema\":2}",
    "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\x7f\x7f\x7f\x7f",
    "what?",
];

fn requests() -> impl Strategy<Value = Sent> {
    let known = ["GET", "GET", "GET", "POST", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"];
    let method = prop_oneof![prop::sample::select(known.to_vec()).prop_map(str::to_owned), "[A-Z]{1,12}"];
    let path = prop_oneof![
        6 => prop::sample::select(PATHS.to_vec()).prop_map(str::to_owned),
        1 => "/(api|assets|%2e%2e|\\.\\.|[a-z%0-9./~]{0,30}){0,4}",
        1 => "/[!-~]{0,60}",
    ];
    let key = prop::sample::select(vec![
        "service", "any", "near", "within", "at", "area", "rect", "from", "k", "timeout", "where", "x",
    ]);
    let value = prop_oneof![
        prop::sample::select(vec![
            "video",
            "true",
            "acme/lidar",
            "acme/lidar:call",
            "1,2",
            "47.1,8.2",
            "5km",
            "uav1",
            "-1",
            "99999999999999999999"
        ])
        .prop_map(str::to_owned),
        "[a-z0-9%,.:/#=+-]{0,30}",
        "[!-~]{0,400}",
    ];
    let query = prop::collection::vec((key, value), 0..5);
    let target = (path, query).prop_map(|(path, query)| {
        let pairs: Vec<String> = query.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if pairs.is_empty() { path } else { format!("{path}?{}", pairs.join("&")) }
    });
    let names = [
        "origin",
        "sec-fetch-site",
        "sec-fetch-mode",
        "sec-fetch-dest",
        "range",
        "accept",
        "cookie",
        "content-type",
        "x-y",
    ];
    let value = prop_oneof![
        prop::sample::select(vec![
            "same-origin",
            "none",
            "cross-site",
            "navigate",
            "document",
            "bytes=0-99",
            "bytes=9-",
            "null",
            "http://evil.example",
            "text/event-stream"
        ])
        .prop_map(str::to_owned),
        "bytes=[0-9]{0,20}-[0-9]{0,20}",
        "[ -~]{0,200}",
    ];
    let host =
        prop_oneof![4 => Just("127.0.0.1:7790".to_owned()), 1 => Just("evil.example".to_owned()), 1 => "[ -~]{0,40}"];
    let headers =
        (host, prop::collection::vec((prop::sample::select(names.to_vec()), value), 0..5)).prop_map(|(host, more)| {
            let more = more.into_iter().map(|(name, value)| (name.to_owned(), value));
            std::iter::once(("host".to_owned(), host)).chain(more).collect()
        });
    let body = prop::collection::vec(any::<u8>(), 0..2_000);
    (method, target, headers, body).prop_map(|(method, target, headers, body)| Sent { method, target, headers, body })
}

/// Requests as the page makes them, but for what a person may write into its forms.
fn usual() -> impl Strategy<Value = Sent> {
    let kinds = [
        ("GET", "/api/lookup?any=true"),
        ("POST", "/api/trace?any=true"),
        ("GET", "/api/lookup?near=47.1,8.2"),
        ("GET", "/api/tiles?any=true"),
    ];
    let service =
        prop_oneof![3 => Just("video".to_owned()), 1 => Just("acme/lidar".to_owned()), 1 => "[a-z/#:%]{0,20}"];
    let range = (0_u32..200_000, 0_u32..200_000).prop_map(|(start, end)| format!("bytes={start}-{end}"));
    (prop::sample::select(kinds.to_vec()), service, range).prop_map(|((method, path), service, range)| Sent {
        method: method.to_owned(),
        target: format!("{path}&service={service}"),
        headers: vec![("host".to_owned(), "127.0.0.1:7790".to_owned()), ("range".to_owned(), range)],
        body: Vec::new(),
    })
}

/// `None` of what is no request of HTTP.
fn built(sent: &Sent) -> Option<Request<Body>> {
    let method = Method::from_bytes(sent.method.as_bytes()).ok()?;
    let request = Request::builder().method(method).uri(&sent.target);
    let all = sent.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    all.body(Body::from(sent.body.clone())).ok()
}

/// The status, after a look at the headers and the whole body.
async fn checked(answer: Response, target: &str) -> Result<StatusCode, String> {
    let status = answer.status();
    for (name, value) in guard::headers() {
        if answer.headers().get(&name) != Some(&value) {
            return Err(format!("{status} without {name}"));
        }
    }
    if status == StatusCode::INTERNAL_SERVER_ERROR {
        return Err("an internal error".to_owned());
    }
    let mut body = Limited::new(answer.into_body(), 8 << 20);
    if status == StatusCode::OK && target.starts_with("/api/events") {
        // The changes have no end.
        return match tokio::time::timeout(LONGEST, body.frame()).await {
            Ok(Some(Ok(_))) | Ok(None) => Ok(status),
            other => Err(format!("no first event: {other:?}")),
        };
    }
    match tokio::time::timeout(LONGEST, body.collect()).await {
        Ok(Ok(_)) => Ok(status),
        Ok(Err(error)) => Err(format!("the body is too long: {error}")),
        Err(_) => Err("the body has no end".to_owned()),
    }
}

#[test]
fn generated_requests_are_answered() {
    let bench = Bench::start(NONSENSE);
    let service = TowerToHyperService::new(bench.routes());
    let mut seen = std::collections::BTreeMap::<u16, u32>::new();
    let counted = std::cell::RefCell::new(&mut seen);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(3_000) });
    let outcome = runner.run(&prop_oneof![4 => requests().boxed(), 1 => usual().boxed()], |sent| {
        let Some(request) = built(&sent) else { return Ok(()) };
        let is_own = request.headers().get("host").is_some_and(|host| host == "127.0.0.1:7790");
        let answered = bench.runtime.block_on(async {
            let answer = tokio::time::timeout(LONGEST, service.call(request)).await;
            checked(answer.map_err(|_| "no answer".to_owned())?.unwrap(), &sent.target).await
        });
        let status = answered.map_err(TestCaseError::fail)?;
        prop_assert!(is_own || status == StatusCode::FORBIDDEN, "{} for another host", status);
        *counted.borrow_mut().entry(status.as_u16()).or_default() += 1;
        Ok(())
    });
    outcome.unwrap();
    // The generator reaches each kind of answer.
    for status in [200, 206, 400, 403, 404, 405, 416, 502] {
        assert!(seen.contains_key(&status), "never {status}: {seen:?}");
    }
}

#[test]
fn silent_daemon_ends_search_and_trace() {
    let bench = Bench::start(&[""]);
    let service = TowerToHyperService::new(bench.routes());
    for (method, path) in [("GET", "/api/lookup"), ("POST", "/api/trace")] {
        let target = format!("{path}?service=video&any=true");
        let headers = vec![("host".to_owned(), "127.0.0.1:7790".to_owned())];
        let request = built(&Sent { method: method.to_owned(), target, headers, body: Vec::new() }).unwrap();
        let status = bench.runtime.block_on(async {
            let answer = tokio::time::timeout(LONGEST, service.call(request)).await.unwrap().unwrap();
            checked(answer, path).await
        });
        assert_eq!(status, Ok(StatusCode::GATEWAY_TIMEOUT), "{path}");
    }
}

/// The server's answer to these bytes until it closes the connection.
fn exchanged(bound: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(bound).unwrap();
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let read = stream.take(8 << 20).read_to_end(&mut answer);
    assert!(!read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "the connection stays open");
    answer
}

fn assert_lives(bound: SocketAddr) {
    let head = format!("GET /api/page HTTP/1.1\r\nhost: {bound}\r\nconnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(bound).unwrap();
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let lower = answer.to_lowercase();
    assert!(answer.starts_with("HTTP/1.1 200") && lower.contains("content-security-policy"), "{answer}");
}

#[test]
fn any_bytes_leave_the_server_alive() {
    let bench = Bench::start(NONSENSE);
    let bound = bench.listen();
    let pieces = [
        "GET /",
        "POST /api/trace",
        "?service=video&any=true",
        " HTTP/1.1\r\n",
        "host: 127.0.0.1\r\n",
        "\r\n",
        "content-length: 99999999999\r\n",
        "content-length: 5\r\n",
        "transfer-encoding: chunked\r\n",
        "FFFFFFFF\r\n",
        "upgrade: websocket\r\n",
        "expect: 100-continue\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\0\u{1}",
    ];
    let piece = prop_oneof![
        3 => prop::sample::select(pieces.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
        1 => (1_usize..100_000).prop_map(|length| vec![b'a'; length]),
    ];
    let bytes = prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(150) });
    let outcome = runner.run(&bytes, |bytes| {
        let answer = exchanged(bound, &bytes);
        prop_assert!(!answer.starts_with(b"HTTP/1.1 500"), "{}", String::from_utf8_lossy(&answer));
        Ok(())
    });
    outcome.unwrap();
    assert_lives(bound);
}

#[test]
fn silent_callers_keep_nobody_out() {
    let bench = Bench::start(NONSENSE);
    let bound = bench.listen();
    let silent: Vec<TcpStream> = (0..600).map(|_| TcpStream::connect(bound).unwrap()).collect();
    assert_lives(bound);
    drop(silent);
}
