//! Frames on the TLS stream: kind (1), length (3, big-endian), body.

use std::io;

use bytes::Bytes;
#[cfg(any(test, feature = "simulated"))]
use bytes::{Buf, BytesMut};
use roost_wire::messages::MAX_MESSAGE_BYTES;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::transport::MAX_REASON;

pub(super) const HEADER: usize = 4;

const READY: u8 = 0;
const MESSAGE: u8 = 1;
const CLOSE: u8 = 2;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The listener has accepted the remote that dialed it.
    Ready,
    Message(Bytes),
    /// The connection is over, for this reason.
    Close(String),
}

impl Frame {
    pub(super) fn write(&self, into: &mut Vec<u8>) {
        match self {
            Self::Ready => write(READY, &[], into),
            Self::Message(message) => write(MESSAGE, message, into),
            Self::Close(reason) => write(CLOSE, reason.as_bytes(), into),
        }
    }
}

fn write(kind: u8, body: &[u8], into: &mut Vec<u8>) {
    // A body has at most 64 KiB.
    let length = (body.len() as u32).to_be_bytes();
    into.extend_from_slice(&[kind, length[1], length[2], length[3]]);
    into.extend_from_slice(body);
}

/// Reads a frame; `None` if the stream ends between two frames.
///
/// # Errors
///
/// Those of the stream; [`io::ErrorKind::InvalidData`] if the bytes are not a frame.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Frame>> {
    let mut header = [0; HEADER];
    if stream.read(&mut header[..1]).await? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut header[1..]).await?;
    let (kind, length) = head(header)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(frame(kind, body)))
}

/// Removes the frame at the front of `bytes`; `None` while it is incomplete.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] if the bytes are not a frame.
#[cfg(any(test, feature = "simulated"))]
pub(crate) fn take_frame(bytes: &mut BytesMut) -> io::Result<Option<Frame>> {
    let Some(&header) = bytes.first_chunk() else { return Ok(None) };
    let (kind, length) = head(header)?;
    if bytes.len() < HEADER + length {
        return Ok(None);
    }
    bytes.advance(HEADER);
    Ok(Some(frame(kind, bytes.split_to(length).to_vec())))
}

/// Parses a header into the frame's kind and length.
fn head([kind, a, b, c]: [u8; HEADER]) -> io::Result<(u8, usize)> {
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    let limit = match kind {
        READY => Some(0),
        MESSAGE => Some(MAX_MESSAGE_BYTES),
        CLOSE => Some(MAX_REASON),
        _ => None,
    };
    match limit {
        Some(limit) if length <= limit => Ok((kind, length)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the remote sent what is no frame")),
    }
}

fn frame(kind: u8, body: Vec<u8>) -> Frame {
    match kind {
        READY => Frame::Ready,
        MESSAGE => Frame::Message(body.into()),
        _ => Frame::Close(String::from_utf8_lossy(&body).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_read_back_one_by_one() {
        let mut bytes = Vec::new();
        let frames = [Frame::Ready, Frame::Message(vec![7; 65_536].into()), Frame::Close("why".into())];
        frames.iter().for_each(|frame| frame.write(&mut bytes));
        let mut stream = &bytes[..];
        for frame in frames {
            assert_eq!(read(&mut stream).await.unwrap(), Some(frame));
        }
        assert_eq!(read(&mut stream).await.unwrap(), None);
    }

    #[test]
    fn frame_is_taken_once_whole() {
        let mut bytes = Vec::new();
        Frame::Message(vec![7; 300].into()).write(&mut bytes);
        Frame::Ready.write(&mut bytes);
        let mut held = BytesMut::new();
        let mut taken = Vec::new();
        for byte in bytes {
            held.extend_from_slice(&[byte]);
            taken.extend(take_frame(&mut held).unwrap());
        }
        assert_eq!(taken, [Frame::Message(vec![7; 300].into()), Frame::Ready]);
        assert!(held.is_empty() && take_frame(&mut BytesMut::from(&[9, 0, 0, 0][..])).is_err());
    }

    #[tokio::test]
    async fn what_is_no_frame_is_refused() {
        let long_reason = [&[CLOSE, 0, 1, 1][..], &[b'a'; 257]].concat();
        for bytes in [&[1, 1, 0, 1][..], &[9, 0, 0, 0], &[1, 0, 0, 2, 5], &[1, 0], &[0, 0, 0, 1, 5], &long_reason] {
            let mut stream = bytes;
            assert!(read(&mut stream).await.is_err(), "{bytes:?}");
        }
    }
}
