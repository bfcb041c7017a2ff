//! Datagrams of the trunk: a header of 38 bytes, and a frame.

use crate::carrier::MAX_FRAME_BYTES;

/// A secret of the run, so that datagrams of others are not taken for its own.
pub(crate) type TrunkToken = [u8; 16];

/// Bytes of a datagram with the largest frame.
pub(crate) const FULL: usize = 38 + MAX_FRAME_BYTES;
const FRAME: u8 = 1;
const PING: u8 = 2;
const PONG: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datagram<'a> {
    Frame {
        sequence: u64,
        /// The departure by the sender's clock, nanoseconds.
        left: u64,
        /// The number of the port that the frame comes from, or goes to.
        port: u32,
        bytes: &'a [u8],
    },
    Ping {
        sent: u64,
        /// Frames that the sender has sent before.
        frames: u64,
    },
    Pong {
        sent: u64,
        received: u64,
        answered: u64,
    },
}

impl<'a> Datagram<'a> {
    pub(crate) fn write(&self, token: TrunkToken, machine: usize, buffer: &mut Vec<u8>) {
        buffer.clear();
        buffer.extend_from_slice(&token);
        // A lab has few machines.
        let machine = machine as u8;
        let numbers = |buffer: &mut Vec<u8>, numbers: &[u64]| {
            numbers.iter().for_each(|number| buffer.extend_from_slice(&number.to_be_bytes()));
        };
        match *self {
            Self::Frame { sequence, left, port, bytes } => {
                buffer.extend_from_slice(&[FRAME, machine]);
                numbers(buffer, &[sequence, left]);
                buffer.extend_from_slice(&port.to_be_bytes());
                buffer.extend_from_slice(bytes);
            }
            Self::Ping { sent, frames } => {
                buffer.extend_from_slice(&[PING, machine]);
                numbers(buffer, &[sent, frames]);
            }
            Self::Pong { sent, received, answered } => {
                buffer.extend_from_slice(&[PONG, machine]);
                numbers(buffer, &[sent, received, answered]);
            }
        }
    }

    /// The sender's number and the content; `None` if it is no datagram of this run.
    pub(crate) fn read(token: TrunkToken, bytes: &'a [u8]) -> Option<(usize, Self)> {
        let (found, rest) = bytes.split_first_chunk::<16>()?;
        let ([kind, machine], rest) = rest.split_first_chunk::<2>()?;
        if *found != token {
            return None;
        }
        let (first, rest) = number(rest)?;
        let (second, rest) = number(rest)?;
        let content = match *kind {
            FRAME => {
                let (port, bytes) = rest.split_first_chunk()?;
                Self::Frame { sequence: first, left: second, port: u32::from_be_bytes(*port), bytes }
            }
            PING => Self::Ping { sent: first, frames: second },
            PONG => Self::Pong { sent: first, received: second, answered: number(rest)?.0 },
            _ => return None,
        };
        Some((usize::from(*machine), content))
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

/// The random bytes of a new token.
pub(crate) fn new_token() -> std::io::Result<TrunkToken> {
    let mut token = [0; 16];
    let mut filled = 0;
    while filled < token.len() {
        filled += rustix::rand::getrandom(&mut token[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(token)
}
