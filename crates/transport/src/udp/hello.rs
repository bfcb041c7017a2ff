//! Classifies datagrams that belong to no session: the first of a handshake, one from a remote whose address has
//! changed, or noise.
//!
//! Under load, or if the ClientHello is short, a listener asks for proof of the sender's address before it keeps any
//! state, like QUIC's Retry: it answers with a cookie, and the dialing side repeats the ClientHello with the cookie
//! before it. It answers a record from an unknown address in the same way; see [`super::migration`]. DTLS records begin
//! with 20 to 63, so these kinds cannot be mistaken for one.
//!
//! Anybody can send with a forged address, and neither a demand for a cookie nor a ServerHello nor an alert shows that
//! its sender has seen the ClientHello. So the dialing side appends a record which older versions ignore. It asks that
//! each unencrypted answer begins with the first bytes of the ClientHello's random. Only hosts on the path can know
//! these.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use aws_lc_rs::{hmac, rand};

use crate::stateless_reset::RESET_TOKEN_BYTES;

pub(super) const COOKIE: usize = 16;
/// Stands before a ClientHello, with a cookie between them.
pub(super) const PROVED: u8 = 1;
/// The answer to a ClientHello: repeat it with this cookie.
pub(super) const RETRY: u8 = 2;
/// The answer to a record from an unknown address: identify the session, with this cookie.
pub(super) const UNKNOWN: u8 = 3;
/// Before a record from a new address: the id of its session, and the cookie.
pub(super) const MOVED: u8 = 4;
/// The answer to [`MOVED`] for an unknown session: the token that the remote was given for it.
pub(super) const RESET: u8 = 5;
/// Before an unencrypted answer: the first bytes of the random of the ClientHello that it answers.
pub(super) const ECHO: u8 = 6;
/// The length of an echo, with its first byte.
pub(super) const ECHO_BYTES: usize = 1 + size_of::<UdpSessionId>();
/// After a ClientHello: a record of a type that DTLS 1.3 discards (change_cipher_spec). It asks for [`ECHO`].
pub(super) const ASKS: [u8; 14] = [20, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
/// The least size, in bytes, of a ClientHello's first datagram that is answered without proof of the address. The
/// answer and its repetitions take three times as much, the most that RFC 9000, section 8.1, allows for an address that
/// is not validated. Our own fill a packet.
pub(super) const MIN_UNPROVED: usize = 1100;
/// The shortest time for which a cookie is valid.
const COOKIE_LIFE: Duration = Duration::from_secs(30);

/// The id by which sessions are told apart at any address: the first bytes of the ClientHello's random. Everybody on
/// the path has seen it, so it proves nothing.
pub(super) type UdpSessionId = [u8; 8];

/// The kind of a datagram, as far as it is visible without a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DatagramKind<'a> {
    Hello {
        greeting: ClientHello,
        records: &'a [u8],
    },
    /// An answer from a sender that has seen a ClientHello with this random.
    Echo {
        random: UdpSessionId,
        answer: &'a [u8],
    },
    /// A demand for a cookie, in answer to our ClientHello.
    Retry([u8; COOKIE]),
    /// Other DTLS records. Encrypted ones have the low bits of their epoch.
    Records {
        epoch: Option<u8>,
    },
    /// The answer to our record: the remote does not know our address.
    Unknown([u8; COOKIE]),
    /// A record of a session whose remote has a new address.
    Moved {
        id: UdpSessionId,
        cookie: [u8; COOKIE],
        record: &'a [u8],
    },
    /// The answer to [`Self::Moved`]: the session is unknown.
    Reset([u8; RESET_TOKEN_BYTES]),
    Noise,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientHello {
    pub(super) random: [u8; 32],
    pub(super) cookie: Option<[u8; COOKIE]>,
    /// True if its sender asks for answers with an echo.
    pub(super) asks: bool,
}

impl ClientHello {
    /// The bytes to put before an unencrypted answer.
    pub(super) fn echo(&self) -> Option<[u8; ECHO_BYTES]> {
        self.asks.then(|| echo(&self.random))
    }
}

/// The bytes that prove that an answer's sender has seen a ClientHello.
pub(super) fn echo(random: &[u8; 32]) -> [u8; ECHO_BYTES] {
    let mut echo = [ECHO; ECHO_BYTES];
    echo[1..].copy_from_slice(&random[..ECHO_BYTES - 1]);
    echo
}

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

/// For the fuzz target: true if the classification fits the datagram's bytes.
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

/// The random of a ClientHello whose first part is at the start of the datagram.
pub(super) fn client_random(records: &[u8]) -> Option<[u8; 32]> {
    // Record header: 13 bytes. Handshake header: type, length (3), sequence (2), offset of the fragment (3), its length
    // (3). Then version (2), random.
    let is_hello = records.first() == Some(&HANDSHAKE) && records.get(13) == Some(&CLIENT_HELLO);
    let is_first_part = records.get(19..22) == Some(&[0, 0, 0]);
    let random = records.get(27..59).filter(|_| is_hello && is_first_part)?;
    random.try_into().ok()
}

/// True if a datagram begins with an unencrypted ServerHello.
pub(super) fn is_server_hello(records: &[u8]) -> bool {
    matches!((records.first(), records.get(13)), (Some(&HANDSHAKE), Some(&SERVER_HELLO)))
}

/// Makes and checks cookies without state for each address.
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

/// A token bucket: `per_second` tokens in each second, and as many in a burst.
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

    /// Takes a token. Returns false if there is none.
    pub(crate) fn try_take_token(&mut self, now: Instant) -> bool {
        self.fill(now);
        let passes = self.tokens >= 1.0;
        if passes {
            self.tokens -= 1.0;
        }
        passes
    }

    /// True if no token was taken in the last second.
    pub(crate) fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.tokens >= self.per_second
    }

    /// True if half of a second's tokens are left.
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
