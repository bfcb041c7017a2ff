//! The streams of a simulated path's QUIC connection.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt};

use crate::multipath::CopyId;

#[derive(Default)]
pub(super) struct Streams {
    /// Contents that wait for a stream of their own, with priorities. A greeting has no copy id.
    pub(super) waiting: VecDeque<(Option<CopyId>, [Bytes; 2], i32)>,
    /// Streams that are not fully written, with the rest of their content.
    writing: BTreeMap<StreamId, Vec<Bytes>>,
    pub(super) sent: BTreeMap<StreamId, CopyId>,
    /// Streams that have not been read to their end.
    pub(super) reading: BTreeMap<StreamId, Vec<u8>>,
}

impl Streams {
    /// Opens streams for the waiting contents, and writes as much to all streams as they accept.
    pub(super) fn write(&mut self, connection: &mut Connection) {
        while !self.waiting.is_empty()
            && let Some(id) = connection.streams().open(Dir::Uni)
        {
            let Some((copy, content, priority)) = self.waiting.pop_front() else { return };
            self.writing.insert(id, content.to_vec());
            self.sent.extend(copy.map(|copy| (id, copy)));
            // This cannot fail: the stream has just been opened.
            let _ = connection.send_stream(id).set_priority(priority);
        }
        self.writing.retain(|id, chunks| {
            let mut stream = connection.send_stream(*id);
            if let Ok(written) = stream.write_chunks(chunks) {
                chunks.drain(..written.chunks);
            }
            let is_written = chunks.iter().all(Bytes::is_empty);
            // This cannot fail: the stream was open for the last write.
            let _ = is_written.then(|| stream.finish());
            !is_written
        });
    }

    pub(super) fn cancel(&mut self, connection: &mut Connection, copy: CopyId) {
        self.waiting.retain(|(waiting, ..)| *waiting != Some(copy));
        let Some(id) = self.sent.iter().find(|(_, sent)| **sent == copy).map(|(id, _)| *id) else { return };
        self.sent.remove(&id);
        self.writing.remove(&id);
        // A stream that is acknowledged already needs no reset.
        let _ = connection.send_stream(id).reset(VarInt::from_u32(0));
    }

    /// Reads the available bytes of a stream. Returns its whole content once it is complete.
    pub(super) fn read(&mut self, connection: &mut Connection, id: StreamId) -> Option<Vec<u8>> {
        let body = self.reading.get_mut(&id)?;
        let mut stream = connection.recv_stream(id);
        let mut chunks = stream.read(true).ok()?;
        let outcome = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk.bytes),
                Ok(None) => break Ok(true),
                Err(ReadError::Blocked) => break Ok(false),
                Err(ReadError::Reset(_)) => break Err(()),
            }
        };
        // Credit for the other end leaves with the next packets.
        let _ = chunks.finalize();
        match outcome {
            Ok(true) => self.reading.remove(&id),
            Ok(false) => None,
            Err(()) => {
                self.reading.remove(&id);
                None
            }
        }
    }
}
