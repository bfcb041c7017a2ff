//! Client and server over a real Unix socket.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use axum::Router;
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use roost_api::server::{ApiError, ControlSocket, QueryPairs, SocketError, json_line, json_response, with_fallback};
use roost_api::{
    Candidate, Client, ClientError, Code, Connections, Error, FRAMES, Frame, Index, IndexTotals, Moved, Progress,
    RequestEvent, SCHEMA, WatchEvent, WatchQuery,
};
use roost_wire::messages::ServiceRequest;
use roost_wire::{Area, Cell, NodeId, Service, ServiceSet};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc, oneshot};

async fn serve(router: Router) -> (TempDir, Client) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run/daemon.sock");
    let socket = ControlSocket::bind(&path).await.unwrap();
    tokio::spawn(socket.serve(with_fallback(router), std::future::pending()));
    (folder, Client::connect(path).await.unwrap())
}

#[tokio::test]
async fn json_goes_both_ways() {
    let moved = |QueryPairs(pairs): QueryPairs| async move {
        let to: Cell = pairs[0].1.parse().unwrap();
        json_response(&Moved { schema: SCHEMA, from: Cell::new(0, 0), to, place: None })
    };
    let (_folder, client) = serve(Router::new().route("/v1/move", post(moved))).await;
    let answer = client.move_to(Cell::new(-3, 4)).await.unwrap();
    assert_eq!(answer, Moved { schema: SCHEMA, from: Cell::new(0, 0), to: Cell::new(-3, 4), place: None });
}

#[tokio::test]
async fn an_error_arrives_with_its_code() {
    let busy = || async { ApiError::new(Code::Busy, "all are busy") };
    let (_folder, client) = serve(Router::new().route("/v1/connections", get(busy)).route("/v1/move", get(busy))).await;
    let error = client.connections().await.unwrap_err();
    assert!(matches!(&error, ClientError::Api(Error { code: Code::Busy, .. })), "{error:?}");
    assert_eq!((error.exit_code(), error.to_string()), (5, "all are busy".to_owned()));
    let there_is_not = [client.status().await.map(drop), client.move_to(Cell::new(0, 0)).await.map(drop)];
    for error in there_is_not.map(Result::unwrap_err) {
        assert!(matches!(&error, ClientError::Api(Error { code: Code::NoSuchEndpoint, .. })), "{error:?}");
    }
}

#[tokio::test]
async fn long_index_is_paged() {
    let page = |QueryPairs(pairs): QueryPairs| async move {
        let number = |key: &str| pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        let after = number("after").map_or(0, |id| u8::from_str_radix(&id[..2], 16).unwrap());
        let limit: u8 = number("limit").unwrap().parse().unwrap();
        let row = |number: u8| Candidate {
            node: NodeId::from_bytes([number; 16]),
            cell: Cell::new(0, 0),
            services: Vec::new(),
            offers: Vec::new(),
            streams_left: 0,
            uplink_left_kbps: None,
            addresses: Vec::new(),
            record: String::new(),
            name: None,
            position: None,
            place: None,
            expires_in_s: None,
            suspended: None,
            home: None,
            home_name: None,
            standby: None,
            standby_name: None,
        };
        // No answer has more than ten, as no answer of a hub has more than ten thousand.
        let nodes = (after + 1..=25).take(limit.min(10).into()).map(row).collect();
        json_response(&Index { schema: SCHEMA, totals: IndexTotals::default(), nodes })
    };
    let (_folder, client) = serve(Router::new().route("/v1/index", get(page))).await;
    let mut ids = Vec::new();
    for (limit, after) in [(5, None), (22, None), (100, None), (100, Some(NodeId::from_bytes([20; 16])))] {
        let index = client.index(limit, after.map(Into::into)).await.unwrap();
        ids.push(index.nodes.iter().map(|node| node.node.as_bytes()[0]).collect::<Vec<_>>());
    }
    let counted: Vec<Vec<u8>> = vec![(1..=5).collect(), (1..=22).collect(), (1..=25).collect(), (21..=25).collect()];
    assert_eq!(ids, counted);
}

#[tokio::test]
async fn data_that_breaks_off_is_told() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let (declines, data) = (tell.clone(), tell);
    let number = |pairs: &[(String, String)]| pairs[0].1.parse::<u64>().unwrap();
    let decline = move |QueryPairs(pairs): QueryPairs| async move { declines.send(number(&pairs)).unwrap() };
    let give = move |QueryPairs(pairs): QueryPairs, body: Body| async move {
        let ended = body.into_data_stream().try_for_each(|_| std::future::ready(Ok(()))).await;
        ended.unwrap_err();
        data.send(number(&pairs)).unwrap();
    };
    let router = Router::new().route("/v1/offer/data", post(give)).route("/v1/offer/decline", post(decline));
    let (_folder, client) = serve(router).await;
    for request in 0..20 {
        let (give, data) = mpsc::channel(1);
        let ends_later = (request % 2 == 0).then(|| give.clone());
        drop(give);
        let (given, ()) = tokio::join!(client.give(request, "", data), async move { drop(ends_later) });
        given.unwrap_err();
        let is_told = async { while told.recv().await.unwrap() != request {} };
        let is_told = tokio::time::timeout(Duration::from_secs(20), is_told).await;
        is_told.expect("the daemon would wait for data that has broken off");
    }
}

#[tokio::test]
async fn other_schema_is_rejected() {
    let later = || async { r#"{"schema":3,"connections":[]}"# };
    let (_folder, client) = serve(Router::new().route("/v1/connections", get(later))).await;
    assert!(matches!(client.connections().await, Err(ClientError::Malformed(_))));
}

fn frames() -> [Frame; 2] {
    let event = RequestEvent::Progress(Progress { bytes: 1, elapsed_ms: 2.0, lost: None });
    [Frame::Event(event), Frame::Data(Bytes::from(vec![7; 100_000]))]
}

/// Answers a request with [`frames`] and then ends well or breaks off.
async fn answer_with_frames(end: Option<std::io::Error>) -> (TempDir, Client) {
    let end = Arc::new(std::sync::Mutex::new(end));
    let answer = move || async move {
        let whole = frames().map(|frame| Ok(frame.encode()));
        let body = Body::from_stream(stream::iter(whole.into_iter().chain(end.lock().unwrap().take().map(Err))));
        ([(header::CONTENT_TYPE, FRAMES)], body).into_response()
    };
    serve(Router::new().route("/v1/request", post(answer))).await
}

#[tokio::test]
async fn frames_come_in_order() {
    let (_folder, client) = answer_with_frames(None).await;
    let mut stream = client.request(&ServiceRequest::new(Service::Image, Area::Anywhere)).await.unwrap();
    for frame in frames() {
        assert_eq!(stream.next().await.unwrap(), Some(frame));
    }
    assert_eq!(stream.next().await.unwrap(), None);
}

#[tokio::test]
async fn truncated_answer_is_error() {
    let (_folder, client) = answer_with_frames(Some(std::io::Error::other("gone"))).await;
    let read = async {
        let mut stream = client.request(&ServiceRequest::new(Service::Image, Area::Anywhere)).await?;
        while stream.next().await?.is_some() {}
        Ok(())
    };
    let error: ClientError = read.await.unwrap_err();
    assert!(matches!(error, ClientError::Broken(_)), "{error:?}");
}

#[tokio::test]
async fn watch_streams_lines() {
    let event = |number| WatchEvent {
        schema: SCHEMA,
        number,
        present: Vec::new(),
        gone: Vec::new(),
        gone_names: BTreeMap::new(),
    };
    let answer = move || async move {
        let lines = (1..=2).map(move |number| serde_json::to_string(&event(number)).unwrap() + "\n");
        Response::new(Body::from(lines.collect::<String>()))
    };
    let (_folder, client) = serve(Router::new().route("/v1/watch", get(answer))).await;
    let query = WatchQuery { services: ServiceSet::ALL, area: Area::Anywhere, place: None, names: false };
    let mut watch = client.watch(&query).await.unwrap();
    assert_eq!(watch.next().await.unwrap(), Some(event(1)));
    assert_eq!(watch.next().await.unwrap(), Some(event(2)));
    assert_eq!(watch.next().await.unwrap(), None);
}

#[tokio::test]
async fn refused_watch_gives_reason() {
    let refuse = || async { json_line(&ApiError::new(Code::Busy, "too many watches").body()) };
    let (_folder, client) = serve(Router::new().route("/v1/watch", get(refuse))).await;
    let query = WatchQuery { services: ServiceSet::ALL, area: Area::Anywhere, place: None, names: false };
    let error = client.watch(&query).await.unwrap().next().await.unwrap_err();
    assert_eq!((error.exit_code(), error.to_string()), (5, "too many watches".to_owned()));
}

#[tokio::test]
async fn only_stale_socket_is_replaced() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("daemon.sock");
    // Left behind: the listener is gone, the file is not.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let error = Client::connect(&path).await.unwrap_err();
    assert_eq!(error.exit_code(), 3, "{error}");
    let socket = ControlSocket::bind(&path).await.unwrap();
    assert!(matches!(ControlSocket::bind(&path).await, Err(SocketError::InUse(_))));
    let long = path.with_file_name("s".repeat(108));
    let error = ControlSocket::bind(&long).await.unwrap_err().to_string();
    assert!(error.contains("may have 107"), "{error}");
    drop(socket);
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(ControlSocket::bind(&path).await, Err(SocketError::NotASocket(_))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn replaced_socket_survives_old_daemon() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("daemon.sock");
    let (answering, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let wait = {
        let (answering, release) = (Arc::clone(&answering), Arc::clone(&release));
        move || async move {
            answering.notify_one();
            release.notified().await;
        }
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let old = ControlSocket::bind(&path).await.unwrap();
    let router = Router::new().route("/wait", get(wait));
    let old = tokio::spawn(old.serve(router, async { drop(stopped.await) }));
    let mut caller = UnixStream::connect(&path).await.unwrap();
    caller.write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    answering.notified().await;
    stop.send(()).unwrap();
    // The old daemon still answers its caller when the new one starts.
    let _new = loop {
        match ControlSocket::bind(&path).await {
            Ok(socket) => break socket,
            Err(SocketError::InUse(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    release.notify_one();
    old.await.unwrap();
    UnixStream::connect(&path).await.unwrap();
}

#[tokio::test]
async fn full_daemon_keeps_its_socket() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("daemon.sock");
    let busy = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    busy.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    busy.listen(0).unwrap();
    let _waiting = UnixStream::connect(&path).await.unwrap();
    assert!(matches!(ControlSocket::bind(&path).await, Err(SocketError::InUse(_))));
    assert!(path.exists());
}

#[tokio::test]
async fn socket_excludes_other_users() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("daemon.sock");
    let _socket = ControlSocket::bind(&path).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_sockets_keep_their_modes() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let makers = (0..4).map(|maker| {
        let folder = folder.path().to_owned();
        tokio::spawn(async move {
            for turn in 0..1500 {
                let path = folder.join(format!("{maker}-{turn}")).join("daemon.sock");
                let _socket = ControlSocket::bind(&path).await.unwrap();
                assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
            }
        })
    });
    for made in futures_util::future::join_all(makers).await {
        made.unwrap();
    }
}

#[tokio::test]
async fn empty_connections_match_schema() {
    let none = || async { json_response(&Connections { schema: SCHEMA, connections: Vec::new(), down: Vec::new() }) };
    let (_folder, client) = serve(Router::new().route("/v1/connections", get(none))).await;
    assert!(client.connections().await.unwrap().connections.is_empty());
}

/// Takes the next connection, over which a request has to come, and refuses that.
async fn refuse_next(listener: &UnixListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0, "a connection without a request");
    let answer = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(answer).await.unwrap();
}

#[tokio::test]
async fn first_call_takes_the_first_connection() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("daemon.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let client = Client::connect(&path).await.unwrap();
    for _ in 0..2 {
        let (answer, ()) = tokio::join!(client.status(), refuse_next(&listener));
        assert!(answer.is_err());
    }
}

#[tokio::test]
async fn a_closed_first_connection_is_replaced() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("daemon.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let client = Client::connect(&path).await.unwrap();
    drop(listener.accept().await.unwrap());
    // The runtime has heard of the end by the time that it has nothing else to do.
    tokio::task::yield_now().await;
    let (answer, ()) = tokio::join!(client.status(), refuse_next(&listener));
    assert!(answer.is_err());
}
