//! What a datagram may be that no session explains: the first of a handshake,
//! something of a peer whose address has changed, or noise.
//!
//! Under load, or if the ClientHello is short, a listener asks for proof that
//! the sender's address is real before it keeps anything (as QUIC's Retry): it
//! answers with a cookie, and the dialler repeats the ClientHello with the
//! cookie in front. In the same way it answers a record from an address that it
//! knows nobody at; see [`super::migration`]. DTLS records begin with 20 to 63, so
//! these kinds cannot be taken for one.
//!
//! Anybody can send in the name of another address, and neither a cookie's question nor a ServerHello
//! nor an alert shows that its sender has seen the ClientHello. So a dialler asks, in a record behind
//! it that older versions pass over, that each answer that is not encrypted carries the begin of the
//! ClientHello's random in front: only who is on the path can say that.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use aws_lc_rs::{hmac, rand};

use crate::stateless_reset::RESET_TOKEN_BYTES;

/// Length of a cookie, bytes.
pub(super) const COOKIE: usize = 16;
/// In front of a ClientHello: a cookie.
pub(super) const PROVED: u8 = 1;
/// The answer to a ClientHello: come back with this cookie.
pub(super) const RETRY: u8 = 2;
/// The answer to a record from an unknown address: say who you are, with this cookie.
pub(super) const UNKNOWN: u8 = 3;
/// In front of a record from a new address: the id of its session, and the cookie.
pub(super) const MOVED: u8 = 4;
/// The answer to that where nobody has such a session: the token that was left with the peer.
pub(super) const RESET: u8 = 5;
/// In front of an answer that is not encrypted: the beginning of the random of the ClientHello that it answers.
pub(super) const ECHO: u8 = 6;
/// Its length with what it carries.
pub(super) const ECHO_BYTES: usize = 1 + size_of::<SessionId>();
/// Behind a ClientHello: a record of a type that DTLS 1.3 discards (change_cipher_spec), which asks
/// for [`ECHO`].
pub(super) const ASKS: [u8; 14] = [20, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
/// The least size of a ClientHello's first datagram, bytes, that is answered
/// without proof of the address: the answer and its repetitions take three
/// times as much, the most that RFC 9000, section 8.1, lets go to an address
/// that may not be the sender's. Ours fill a packet.
pub(super) const MIN_UNPROVED: usize = 1100;
/// How long a cookie is good, at least.
const COOKIE_LIFE: Duration = Duration::from_secs(30);

/// Tells the sessions of two peers apart wherever they are: the begin of the
/// ClientHello's random. Everybody on the path has seen it; it proves nothing.
pub(super) type SessionId = [u8; 8];

/// A datagram, as far as it can be told without a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DatagramKind<'a> {
    /// A ClientHello's first part.
    Hello {
        greeting: ClientHello,
        records: &'a [u8],
    },
    /// An answer from somebody who has seen a ClientHello of this random.
    Echo {
        random: SessionId,
        answer: &'a [u8],
    },
    /// The answer to ours.
    Retry([u8; COOKIE]),
    /// Other DTLS records; encrypted ones with the low bits of their epoch.
    Records {
        epoch: Option<u8>,
    },
    /// The answer to a record of ours: the peer does not know us by our address.
    Unknown([u8; COOKIE]),
    /// A record of a session whose peer has another address now.
    Moved {
        id: SessionId,
        cookie: [u8; COOKIE],
        record: &'a [u8],
    },
    /// The answer to it: the session is not known any more.
    Reset([u8; RESET_TOKEN_BYTES]),
    Noise,
}

/// The first datagrams of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientHello {
    pub(super) random: [u8; 32],
    /// The proof of its sender's address.
    pub(super) cookie: Option<[u8; COOKIE]>,
    /// Its sender wants answers that echo its random.
    pub(super) asks: bool,
}

impl ClientHello {
    /// The bytes in front of an unencrypted answer.
    pub(super) fn echo(&self) -> Option<[u8; ECHO_BYTES]> {
        self.asks.then(|| echo(&self.random))
    }
}

/// The bytes that show that an answer's sender has seen a ClientHello.
pub(super) fn echo(random: &[u8; 32]) -> [u8; ECHO_BYTES] {
    let mut echo = [ECHO; ECHO_BYTES];
    echo[1..].copy_from_slice(&random[..ECHO_BYTES - 1]);
    echo
}

/// Tells what a datagram is.
pub(super) fn classify(datagram: &[u8]) -> DatagramKind<'_> {
    match datagram.first() {
        Some(&RETRY) => datagram[1..].try_into().map_or(DatagramKind::Noise, DatagramKind::Retry),
        Some(&UNKNOWN) => datagram[1..].try_into().map_or(DatagramKind::Noise, DatagramKind::Unknown),
        Some(&MOVED) => moved(&datagram[1..]).unwrap_or(DatagramKind::Noise),
        Some(&RESET) => datagram[1..].try_into().map_or(DatagramKind::Noise, DatagramKind::Reset),
        Some(&PROVED) => match datagram[1..].split_first_chunk() {
            Some((cookie, records)) => read_greeting(records, Some(*cookie)).unwrap_or(DatagramKind::Noise),
            None => DatagramKind::Noise,
        },
        Some(&ECHO) => match datagram[1..].split_first_chunk() {
            Some((random, answer)) => DatagramKind::Echo { random: *random, answer },
            None => DatagramKind::Noise,
        },
        Some(20..=31) => read_greeting(datagram, None).unwrap_or(DatagramKind::Records { epoch: None }),
        Some(first @ 32..=63) => DatagramKind::Records { epoch: Some(first & 3) },
        _ => DatagramKind::Noise,
    }
}

fn read_greeting(records: &[u8], cookie: Option<[u8; COOKIE]>) -> Option<DatagramKind<'_>> {
    let asking = records.strip_suffix(&ASKS);
    let (records, asks) = (asking.unwrap_or(records), asking.is_some());
    let random = client_random(records)?;
    Some(DatagramKind::Hello { greeting: ClientHello { random, cookie, asks }, records })
}

/// Whether a datagram is told apart as what it is; for the fuzz target.
pub(crate) fn is_classified(datagram: &[u8]) -> bool {
    match classify(datagram) {
        DatagramKind::Hello { greeting, records } => {
            let end = if greeting.asks { [records, &ASKS].concat() } else { records.to_vec() };
            datagram.ends_with(&end) && client_random(records) == Some(greeting.random)
        }
        DatagramKind::Echo { random, answer } => [&[ECHO][..], &random, answer].concat() == datagram,
        DatagramKind::Retry(_) | DatagramKind::Unknown(_) => datagram.len() == 1 + COOKIE,
        DatagramKind::Reset(_) => datagram.len() == 1 + RESET_TOKEN_BYTES,
        DatagramKind::Moved { id, cookie, record } => [&[MOVED][..], &id, &cookie, record].concat() == datagram,
        DatagramKind::Records { .. } => matches!(datagram.first(), Some(20..=63)),
        DatagramKind::Noise => true,
    }
}

fn moved(rest: &[u8]) -> Option<DatagramKind<'_>> {
    let (id, rest) = rest.split_first_chunk()?;
    let (cookie, record) = rest.split_first_chunk()?;
    Some(DatagramKind::Moved { id: *id, cookie: *cookie, record })
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;

/// The random of a ClientHello whose first part starts the datagram.
pub(super) fn client_random(records: &[u8]) -> Option<[u8; 32]> {
    // Record header: 13 bytes. Handshake header: type, length (3), sequence
    // (2), offset of the part (3), its length (3). Then version (2), random.
    let is_hello = records.first() == Some(&HANDSHAKE) && records.get(13) == Some(&CLIENT_HELLO);
    let is_first_part = records.get(19..22) == Some(&[0, 0, 0]);
    let random = records.get(27..59).filter(|_| is_hello && is_first_part)?;
    random.try_into().ok()
}

/// True if a datagram begins with an unencrypted ServerHello.
pub(super) fn is_server_hello(records: &[u8]) -> bool {
    matches!((records.first(), records.get(13)), (Some(&HANDSHAKE), Some(&SERVER_HELLO)))
}

/// Makes and checks cookies; keeps nothing about anybody.
pub(super) struct Cookies {
    key: hmac::Key,
    since: Instant,
}

impl Cookies {
    /// `None` if the system has no randomness.
    pub(super) fn new(now: Instant) -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new()).ok()?;
        Some(Self { key, since: now })
    }

    pub(super) fn make(&self, now: Instant, to: SocketAddr) -> [u8; COOKIE] {
        self.at(self.period(now), to)
    }

    pub(super) fn check(&self, now: Instant, from: SocketAddr, cookie: &[u8; COOKIE]) -> bool {
        let period = self.period(now);
        [period, period.wrapping_sub(1)].iter().any(|period| self.at(*period, from) == *cookie)
    }

    fn period(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.since).as_secs() / COOKIE_LIFE.as_secs() + 1
    }

    fn at(&self, period: u64, address: SocketAddr) -> [u8; COOKIE] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&period.to_be_bytes());
        context.update(&address.port().to_be_bytes());
        match address.ip() {
            IpAddr::V4(v4) => context.update(&v4.octets()),
            IpAddr::V6(v6) => context.update(&v6.octets()),
        }
        let mut cookie = [0; COOKIE];
        cookie.copy_from_slice(&context.sign().as_ref()[..COOKIE]);
        cookie
    }
}

/// So many a second, and as many again at once.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: f64,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    pub(crate) fn new(per_second: u32, now: Instant) -> Self {
        Self { per_second: f64::from(per_second), tokens: f64::from(per_second), at: now }
    }

    /// Whether one more may pass.
    pub(crate) fn try_take_token(&mut self, now: Instant) -> bool {
        self.fill(now);
        let passes = self.tokens >= 1.0;
        if passes {
            self.tokens -= 1.0;
        }
        passes
    }

    /// True if nothing has passed of late.
    pub(crate) fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.tokens >= self.per_second
    }

    /// True if half of a second's passes are left.
    pub(crate) fn is_half_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.tokens * 2.0 >= self.per_second
    }

    fn fill(&mut self, now: Instant) {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.per_second);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_fits_address_and_period() {
        let now = Instant::now();
        let cookies = Cookies::new(now).unwrap();
        let (here, there) = (SocketAddr::from(([10, 0, 0, 1], 1)), SocketAddr::from(([10, 0, 0, 1], 2)));
        let cookie = cookies.make(now, here);
        assert!(cookies.check(now + COOKIE_LIFE, here, &cookie));
        assert!(!cookies.check(now, there, &cookie));
        assert!(!cookies.check(now + 3 * COOKIE_LIFE, here, &cookie));
    }

    #[test]
    fn bucket_allows_burst_then_trickle() {
        let now = Instant::now();
        let mut bucket = Bucket::new(10, now);
        assert_eq!((0..20).filter(|_| bucket.try_take_token(now)).count(), 10);
        assert_eq!((0..20).filter(|_| bucket.try_take_token(now + Duration::from_millis(250))).count(), 2);
    }

    #[test]
    fn noise_is_told_from_records() {
        assert_eq!(classify(b""), DatagramKind::Noise);
        assert_eq!(classify(b"GET / HTTP/1.1"), DatagramKind::Noise);
        for kind in [RETRY, UNKNOWN, MOVED] {
            assert_eq!(classify(&[kind, 1, 2]), DatagramKind::Noise);
        }
        assert_eq!(classify(&[0x2f, 0, 0]), DatagramKind::Records { epoch: Some(3) });
        assert_eq!(classify(&[22, 0xfe, 0xfd]), DatagramKind::Records { epoch: None });
    }
}
