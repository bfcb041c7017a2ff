//! A slow link to a hub: datagrams to the hub queue up, those from it do not.

use std::time::{Duration, Instant};

use roost_wire::{Address, Scheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc;

/// The most bytes that wait in the link. Beyond it datagrams are dropped and a stream is not read.
pub(crate) const QUEUE_BYTES: usize = 64 * 1024;

/// The address of a hub behind a link of `rate` bytes per second.
pub(crate) async fn way_to(hub: &Address, rate: f64) -> Address {
    let to = hub.primary().expect("a host");
    let at = match hub.scheme {
        Scheme::Tcp => stream(to, rate),
        Scheme::Udp | Scheme::Quic => datagrams(to, rate).await,
    };
    Address::single(hub.scheme, at)
}

fn stream(to: std::net::SocketAddr, rate: f64) -> std::net::SocketAddr {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    // The system doubles the size for its own use.
    socket.set_recv_buffer_size(QUEUE_BYTES / 2).expect("a small buffer");
    socket.set_nonblocking(true).expect("a socket");
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("an address");
    socket.listen(1).expect("a listener");
    let listener = TcpListener::from_std(socket.into()).expect("a listener");
    let at = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        let (node, _) = listener.accept().await.expect("a connection");
        let hub = tokio::net::TcpStream::connect(to).await.expect("a connection");
        let ((mut from_node, mut to_node), (mut from_hub, mut to_hub)) = (node.into_split(), hub.into_split());
        tokio::spawn(async move { tokio::io::copy(&mut from_hub, &mut to_node).await });
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from_node.read(&mut bytes).await {
            tokio::time::sleep(Duration::from_secs_f64(count as f64 / rate)).await;
            if to_hub.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    });
    at
}

async fn datagrams(to: std::net::SocketAddr, rate: f64) -> std::net::SocketAddr {
    let near = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let far = std::sync::Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a socket"));
    far.connect(to).await.expect("a route");
    let at = near.local_addr().expect("its address");
    let (queue, mut queued) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let out = std::sync::Arc::clone(&far);
    tokio::spawn(async move {
        while let Some((when, datagram)) = queued.recv().await {
            tokio::time::sleep_until(when.into()).await;
            let _ = out.send(&datagram).await;
        }
    });
    tokio::spawn(async move {
        let (mut there, mut here) = ([0; 2000], [0; 2000]);
        let (mut node, mut free_at) = (None, Instant::now());
        loop {
            tokio::select! {
                Ok((len, from)) = near.recv_from(&mut there) => {
                    node = Some(from);
                    let begins = free_at.max(Instant::now());
                    if (begins - Instant::now()).as_secs_f64() * rate < QUEUE_BYTES as f64 {
                        free_at = begins + Duration::from_secs_f64(len as f64 / rate);
                        let _ = queue.send((free_at, there[..len].to_vec()));
                    }
                }
                Ok(len) = far.recv(&mut here) => {
                    let _ = near.send_to(&here[..len], node.expect("it spoke first")).await;
                }
            }
        }
    });
    at
}
