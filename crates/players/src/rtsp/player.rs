//! The connection of a player, and the socket of its packets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use roost_services::format;
use roost_services::video::rtp::{self, Packer};
use rtsp_types::{Message, ParseError, Request, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::conversation::{Action, Conversation, SESSION_S, ServerPorts, Way, refuse};
use crate::shared::{Datagram, SharedStream, SharedStreams, Viewer};
use crate::{Selection, Token, random};

/// The most bytes of a message of a player.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// The longest wait for a player that does not read, and for the first datagram of a stream.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest time until a player plays.
const BEFORE_PLAYING: Duration = Duration::from_secs(45);

/// Tries to find two ports side by side.
const TRIES: usize = 16;

struct Player {
    socket: TcpStream,
    streams: SharedStreams,
    conversation: Conversation,
    /// Opened by the first request that names it, and kept until the player goes.
    stream: Option<(Selection, Arc<SharedStream>)>,
    ports: Option<Ports>,
    playing: Option<Playback>,
    started: Instant,
    heard: Instant,
}

/// The port that packets come from, and the one after it, where the player reports.
struct Ports {
    packets: UdpSocket,
    _control: UdpSocket,
    to: SocketAddr,
}

struct Playback {
    viewer: Viewer,
    packer: Option<Packer>,
    started: Instant,
}

pub(super) async fn serve(socket: TcpStream, streams: SharedStreams, token: Option<Token>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let session = data_encoding::HEXLOWER.encode(&random::bytes::<8>()?);
    let conversation = Conversation::new(session, token);
    let (stream, ports, playing) = (None, None, None);
    let player = Player {
        socket,
        streams,
        conversation,
        stream,
        ports,
        playing,
        started: Instant::now(),
        heard: Instant::now(),
    };
    player.run().await
}

impl Player {
    async fn run(mut self) -> io::Result<()> {
        let mut buffer = Vec::new();
        let mut packet = Vec::new();
        loop {
            let deadline = self.deadline();
            tokio::select! {
                read = self.socket.read_buf(&mut buffer) => {
                    if read? == 0 {
                        return Ok(());
                    }
                    self.heard = Instant::now();
                    if !self.read(&mut buffer).await? {
                        return Ok(());
                    }
                }
                datagram = next(&mut self.playing) => {
                    let Some(datagram) = datagram else { return Ok(()) };
                    self.send(&datagram.bytes, &mut packet).await?;
                }
                () = tokio::time::sleep_until(deadline.into()) => return Ok(()),
            }
        }
    }

    /// The time at which a player counts as gone, if nothing is heard of it until then.
    fn deadline(&self) -> Instant {
        match (&self.playing, self.conversation.way()) {
            // The connection shows that it is there.
            (Some(_), Some(Way::Interleaved(_))) => self.heard + Duration::from_secs(24 * 3600),
            (Some(_), _) => self.heard + Duration::from_secs(SESSION_S + 10),
            // A player that does not play makes room, however much it says.
            (None, _) => self.started + BEFORE_PLAYING,
        }
    }

    /// Reads the messages that are whole; false at the end of the conversation.
    async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            match Message::<Vec<u8>>::parse(&buffer[..]) {
                Ok((message, bytes)) => {
                    buffer.drain(..bytes);
                    // Reports of the player come as data; nothing depends on them.
                    if let Message::Request(request) = message
                        && !self.answer(request).await?
                    {
                        return Ok(false);
                    }
                }
                Err(ParseError::Incomplete(_)) => return Ok(buffer.len() <= MAX_MESSAGE_BYTES),
                Err(ParseError::Error) => return Ok(false),
            }
        }
    }

    /// Answers a request; false at the end of the conversation.
    async fn answer(&mut self, request: Request<Vec<u8>>) -> io::Result<bool> {
        match self.conversation.read(&request) {
            Action::Reply(reply) => self.write(&reply).await.map(|()| true),
            Action::Describe(selection) => {
                let reply = self.describe(&request, selection).await;
                self.write(&reply).await.map(|()| true)
            }
            Action::SetUp(selection, way) => {
                let reply = self.set_up(&request, selection, way).await;
                self.write(&reply).await.map(|()| true)
            }
            Action::Play(reply) => {
                self.write(&reply).await?;
                self.play()?;
                Ok(true)
            }
            Action::Close(reply) => self.write(&reply).await.map(|()| false),
        }
    }

    async fn write(&mut self, reply: &Response<Vec<u8>>) -> io::Result<()> {
        let mut bytes = Vec::new();
        reply.write(&mut bytes).map_err(io::Error::other)?;
        self.write_all(&bytes).await
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        timeout(PATIENCE, self.socket.write_all(bytes)).await?
    }

    /// The stream of this selection, which is opened only once.
    async fn open(&mut self, selection: Selection) -> Result<Arc<SharedStream>, String> {
        if let Some((opened, stream)) = &self.stream
            && *opened == selection
            && !stream.has_ended()
        {
            return Ok(Arc::clone(stream));
        }
        if self.playing.is_some() {
            return Err("another stream is playing".to_owned());
        }
        let watched = timeout(PATIENCE, self.streams.watch(&selection)).await;
        let stream =
            watched.map_err(|_| "nobody has answered in time".to_owned())?.map_err(|error| error.to_string())?;
        self.stream = Some((selection, Arc::clone(&stream)));
        Ok(stream)
    }

    async fn describe(&mut self, request: &Request<Vec<u8>>, selection: Selection) -> Response<Vec<u8>> {
        let stream = match self.open(selection).await {
            Ok(stream) => stream,
            Err(error) => return refuse(request, StatusCode::NotFound, &error),
        };
        let first = match stream.format() {
            // All transport streams have the same description.
            format::MPEG_TS => Bytes::new(),
            _ => timeout(PATIENCE, first(&stream)).await.unwrap_or_default(),
        };
        match rtp::describe(stream.format(), SocketAddr::from(([0, 0, 0, 0], 0)), &first) {
            Some(description) => self.conversation.described(request, &description),
            None => {
                let reason = format!("players get MPEG-TS or RTP, and this is {}", stream.format());
                refuse(request, StatusCode::UnsupportedMediaType, &reason)
            }
        }
    }

    async fn set_up(&mut self, request: &Request<Vec<u8>>, selection: Selection, way: Way) -> Response<Vec<u8>> {
        if let Err(error) = self.open(selection).await {
            return refuse(request, StatusCode::NotFound, &error);
        }
        let Way::Datagrams { player } = way else { return self.conversation.set_up(request, way, None) };
        match self.open_ports(player).await {
            Ok(ports) => self.conversation.set_up(request, way, Some(ports)),
            Err(error) => refuse(request, StatusCode::InternalServerError, &format!("no port can be opened: {error}")),
        }
    }

    /// Opens ports for packets to the player, which go to the address that it is connected from and to no other.
    async fn open_ports(&mut self, player: u16) -> io::Result<ServerPorts> {
        let (own, to) = (self.socket.local_addr()?.ip(), SocketAddr::new(self.socket.peer_addr()?.ip(), player));
        let (packets, control) = pair(own).await?;
        let numbers = ServerPorts { packets: packets.local_addr()?.port(), control: control.local_addr()?.port() };
        self.ports = Some(Ports { packets, _control: control, to });
        Ok(numbers)
    }

    fn play(&mut self) -> io::Result<()> {
        let Some((_, stream)) = &self.stream else { return Ok(()) };
        if self.playing.is_none() {
            let packer = match stream.format() {
                format::MPEG_TS => Some(Packer::new(random::bytes()?)),
                _ => None,
            };
            self.playing = Some(Playback { viewer: stream.view(), packer, started: Instant::now() });
        }
        Ok(())
    }

    async fn send(&mut self, datagram: &[u8], packet: &mut Vec<u8>) -> io::Result<()> {
        let Some(playing) = &mut self.playing else { return Ok(()) };
        match &mut playing.packer {
            Some(packer) => packer.pack(playing.started.elapsed(), datagram, packet),
            None => {
                packet.clear();
                packet.extend_from_slice(datagram);
            }
        }
        match self.conversation.way() {
            Some(Way::Interleaved(channel)) => {
                // A packet that is longer than its length can say does not exist: datagrams are shorter.
                let Ok(length) = u16::try_from(packet.len()) else { return Ok(()) };
                let [high, low] = length.to_be_bytes();
                packet.splice(0..0, [b'$', channel, high, low]);
                self.write_all(packet).await
            }
            Some(Way::Datagrams { .. }) => {
                // A datagram that is lost here is lost as on any network.
                if let Some(ports) = &self.ports {
                    let _ = ports.packets.send_to(packet, ports.to).await;
                }
                Ok(())
            }
            None => Ok(()),
        }
    }
}

async fn next(playing: &mut Option<Playback>) -> Option<Datagram> {
    match playing {
        Some(playing) => playing.viewer.next().await,
        None => std::future::pending().await,
    }
}

/// The first datagram of a stream that has begun, or the next one.
async fn first(stream: &Arc<SharedStream>) -> Bytes {
    match stream.first() {
        Some(first) => first,
        None => stream.view().next().await.map(|datagram| datagram.bytes).unwrap_or_default(),
    }
}

/// Two ports side by side, of which the first is even.
async fn pair(own: IpAddr) -> io::Result<(UdpSocket, UdpSocket)> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        let packets = UdpSocket::bind((own, 0)).await?;
        let port = packets.local_addr()?.port();
        if !port.is_multiple_of(2) {
            continue;
        }
        match UdpSocket::bind((own, port + 1)).await {
            Ok(control) => return Ok((packets, control)),
            Err(error) => last = error,
        }
    }
    Err(last)
}
