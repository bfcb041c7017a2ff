//! The conversation with one player, without I/O: RTSP 1.0 (RFC 2326), as players speak it.

use rtsp_types::headers::{
    RtpLowerTransport, RtpProfile, RtpTransport, RtpTransportParameters, Transport, TransportMode, Transports,
};
use rtsp_types::{HeaderName, Method, Request, Response, StatusCode, Url, Version, headers};

use super::address::{self, AddressError};
use crate::{Selection, Token};

/// A player that uses datagrams says within this time that it is there, seconds.
pub(super) const SESSION_S: u64 = 60;

/// The stream's name after the address of the presentation; there is only one.
const STREAM: &str = "stream";

/// Requests without the token after which the conversation ends. Players ask without it first.
const MAX_REFUSED: u32 = 3;

const METHODS: &str = "OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN, GET_PARAMETER";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// On this channel of the connection, between the messages.
    Interleaved(u8),
    Datagrams {
        player: u16,
    },
}

/// The ports of this side, for packets and for the player's reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerPorts {
    pub packets: u16,
    pub control: u16,
}

/// The next thing to do for a request.
#[derive(Debug)]
pub(super) enum Action {
    Reply(Response<Vec<u8>>),
    /// Opens the stream, and replies with [`Conversation::described`].
    Describe(Selection),
    /// Opens the stream if that has not been done, and a port, and replies with [`Conversation::set_up`].
    SetUp(Selection, Way),
    Play(Response<Vec<u8>>),
    Close(Response<Vec<u8>>),
}

#[derive(Debug)]
pub(super) struct Conversation {
    session: String,
    token: Option<Token>,
    refused: u32,
    way: Option<Way>,
}

impl Conversation {
    pub(super) const fn new(session: String, token: Option<Token>) -> Self {
        Self { session, token, refused: 0, way: None }
    }

    /// The way of the packets, once it is agreed.
    pub(super) const fn way(&self) -> Option<Way> {
        self.way
    }

    pub(super) fn read(&mut self, request: &Request<Vec<u8>>) -> Action {
        if !self.may_enter(request) {
            self.refused += 1;
            let reply = reply(request, StatusCode::Unauthorized);
            let reply = reply.header(headers::WWW_AUTHENTICATE, "Basic realm=\"Roost\"").build(Vec::new());
            return if self.refused < MAX_REFUSED { Action::Reply(reply) } else { Action::Close(reply) };
        }
        match request.method() {
            Method::Options => {
                Action::Reply(reply(request, StatusCode::Ok).header(headers::PUBLIC, METHODS).build(Vec::new()))
            }
            Method::GetParameter | Method::SetParameter => Action::Reply(self.confirm(request)),
            Method::Describe => match selection(request) {
                Ok(selection) => Action::Describe(selection),
                Err(error) => Action::Reply(refuse(request, StatusCode::NotFound, &error.to_string())),
            },
            Method::Setup => self.begin(request),
            Method::Play if self.way.is_some() => Action::Play(self.confirm(request)),
            Method::Play => Action::Reply(refuse(request, StatusCode::MethodNotValidInThisState, "SETUP comes first")),
            Method::Teardown => Action::Close(self.confirm(request)),
            _ => {
                let reply = reply(request, StatusCode::NotImplemented);
                Action::Reply(reply.header(headers::PUBLIC, METHODS).build(Vec::new()))
            }
        }
    }

    /// True if the request has the token, or none is needed.
    fn may_enter(&self, request: &Request<Vec<u8>>) -> bool {
        let Some(token) = &self.token else { return true };
        let given = request.header(&headers::AUTHORIZATION).and_then(|value| value.as_str().strip_prefix("Basic "));
        let decoded = given.and_then(|given| data_encoding::BASE64.decode(given.trim().as_bytes()).ok());
        let password = decoded.as_deref().and_then(|text| text.splitn(2, |byte| *byte == b':').nth(1));
        password.is_some_and(|password| token.is(password))
    }

    fn begin(&self, request: &Request<Vec<u8>>) -> Action {
        let selection = match selection(request) {
            Ok(selection) => selection,
            Err(error) => return Action::Reply(refuse(request, StatusCode::NotFound, &error.to_string())),
        };
        if self.way.is_some() {
            return Action::Reply(refuse(
                request,
                StatusCode::MethodNotValidInThisState,
                "the stream is set up already",
            ));
        }
        let offered = request.typed_header::<Transports>().ok().flatten();
        match offered.iter().flat_map(|offered| offered.iter()).find_map(way) {
            Some(way) => Action::SetUp(selection, way),
            None => {
                let words = "packets go as RTP/AVP to a port of the player's, or as RTP/AVP/TCP";
                Action::Reply(refuse(request, StatusCode::UnsupportedTransport, words))
            }
        }
    }

    /// The reply with a stream's description (SDP).
    pub(super) fn described(&self, request: &Request<Vec<u8>>, description: &str) -> Response<Vec<u8>> {
        let base = request.request_uri().map(|url| format!("{}/", url.as_str().trim_end_matches('/')));
        let description = format!("{description}a=control:{STREAM}\r\n");
        reply(request, StatusCode::Ok)
            .header(headers::CONTENT_TYPE, "application/sdp")
            .header(headers::CONTENT_BASE, base.unwrap_or_default())
            .build(description.into_bytes())
    }

    /// The reply to a player whose packets go this way; `ports` are those that they come from.
    pub(super) fn set_up(
        &mut self,
        request: &Request<Vec<u8>>,
        way: Way,
        ports: Option<ServerPorts>,
    ) -> Response<Vec<u8>> {
        self.way = Some(way);
        let (lower, interleaved, client_port) = match way {
            Way::Interleaved(channel) => (RtpLowerTransport::Tcp, Some((channel, channel.checked_add(1))), None),
            Way::Datagrams { player } => (RtpLowerTransport::Udp, None, Some((player, player.checked_add(1)))),
        };
        let server_port = ports.map(|ports| (ports.packets, Some(ports.control)));
        let mode = vec![TransportMode::Play];
        let params =
            RtpTransportParameters { unicast: true, interleaved, client_port, server_port, mode, ..Default::default() };
        let transport = RtpTransport { profile: RtpProfile::Avp, lower_transport: Some(lower), params };
        let transports = Transports::from(vec![Transport::Rtp(transport)]);
        self.session_reply(request).typed_header(&transports).build(Vec::new())
    }

    fn confirm(&self, request: &Request<Vec<u8>>) -> Response<Vec<u8>> {
        self.session_reply(request).build(Vec::new())
    }

    fn session_reply(&self, request: &Request<Vec<u8>>) -> rtsp_types::ResponseBuilder {
        let reply = reply(request, StatusCode::Ok);
        let Some(way) = self.way else { return reply };
        // Packets between the messages show that the player is there.
        match way {
            Way::Interleaved(_) => reply.header(headers::SESSION, self.session.clone()),
            Way::Datagrams { .. } => reply.header(headers::SESSION, format!("{};timeout={SESSION_S}", self.session)),
        }
    }
}

fn selection(request: &Request<Vec<u8>>) -> Result<Selection, AddressError> {
    let path = request.request_uri().map_or("", Url::path);
    address::parse(path.strip_suffix(&format!("/{STREAM}")).unwrap_or(path))
}

/// The way of a transport that a player offers.
fn way(offered: &Transport) -> Option<Way> {
    let Transport::Rtp(RtpTransport { profile: RtpProfile::Avp, lower_transport, params }) = offered else {
        return None;
    };
    match lower_transport {
        Some(RtpLowerTransport::Tcp) => Some(Way::Interleaved(params.interleaved.map_or(0, |(channel, _)| channel))),
        None | Some(RtpLowerTransport::Udp) if !params.multicast => {
            params.client_port.filter(|(port, _)| *port > 0).map(|(player, _)| Way::Datagrams { player })
        }
        _ => None,
    }
}

pub(super) fn reply(request: &Request<Vec<u8>>, status: StatusCode) -> rtsp_types::ResponseBuilder {
    let number: HeaderName = headers::CSEQ;
    let reply = Response::builder(Version::V1_0, status).header(headers::SERVER, "Roost");
    match request.header(&number) {
        Some(value) => reply.header(number, value.as_str()),
        None => reply,
    }
}

/// A refusal with its reason, which players show or log.
pub(super) fn refuse(request: &Request<Vec<u8>>, status: StatusCode, reason: &str) -> Response<Vec<u8>> {
    // A line end would begin a header.
    let reason = reason.replace(['\r', '\n'], " ");
    reply(request, status).reason_phrase(reason).build(Vec::new())
}

#[cfg(test)]
mod tests;
