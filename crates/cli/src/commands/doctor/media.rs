//! The way of reflected streams: UDP between this host and the media port of the node's hub.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use roost_api::Status;
use roost_reflection::control::{ControlPacket, PathToken};
use roost_wire::{Role, StreamId, format_node};

use super::Finding;

/// The wait for each question's answer: 3.5 s in all, enough for the longest paths.
const WAITS: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// Asks the media port of the node's super node for a sign of life.
pub(super) fn check(status: &Status) -> Option<Finding> {
    let hub = status.hub.as_ref().filter(|hub| status.role == Role::Node && hub.role == Role::SuperNode)?;
    let who = format_node(hub.node, Some(&hub.name));
    let Some(media) = hub.media else {
        return Some(Finding::ok(
            "media port",
            format!("{who} tells of no media port: its setting `media` is off, or it is of an earlier version"),
        ));
    };
    let media = SocketAddr::new(media.ip().to_canonical(), media.port());
    Some(match answers(media) {
        Ok(true) => Finding::ok("media port", format!("{who} answers at udp {media}")),
        Ok(false) => unanswered(format!("{who} does not answer at udp {media}: no reflected stream comes here")),
        Err(error) => unanswered(format!("nothing can be sent to udp {media}: {error}")),
    })
}

fn unanswered(found: String) -> Finding {
    let fix = "let UDP through to that port and back, in the firewalls of both hosts and between them";
    Finding::warn("media port", found, fix)
}

/// True if a relay answers. A relay answers a packet of an unknown stream: it does not send that stream.
fn answers(media: SocketAddr) -> io::Result<bool> {
    let any: IpAddr = if media.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(media)?;
    let own = u64::from(socket.local_addr()?.port());
    let (stream, word) = (StreamId(own), PathToken(own));
    let question = ControlPacket::KeyFrameRequest.encode(stream, word);
    for wait in WAITS {
        socket.set_read_timeout(Some(wait))?;
        // The error of a closed port comes with the next call.
        if socket.send(&question).is_err() {
            return Ok(false);
        }
        let mut answer = [0; 64];
        match socket.recv(&mut answer).map(|length| ControlPacket::decode(&answer[..length])) {
            Ok(Ok((of, to, ControlPacket::Bye))) if (of, to) == (stream, word) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(false),
            _ => {}
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_port_does_not_answer() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let closed = taken.local_addr().unwrap();
        drop(taken);
        assert!(!answers(closed).unwrap());
    }
}
