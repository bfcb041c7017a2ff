//! Parts of documents that remotes have asked for, sent at a bounded rate.

use roost_wire::messages::{DocumentKind, DocumentMessage, DocumentPart, DocumentRequest, MAX_DOCUMENT_PART};
use roost_wire::{NodeId, Time};

use super::Documents;
use super::transfers::{BYTE, MAX_PER_WAKE};

/// A member gets a document so often within a minute: once, and again after an interruption.
const MAX_TIMES: u64 = 3;

impl Documents {
    /// A remote wants a part: a later request replaces an earlier one.
    pub(super) fn on_request(&mut self, now: Time, from: NodeId, request: DocumentRequest) {
        let length = self.held.get(&request.kind).map_or(0, |bytes| bytes.len() as u64);
        // Of a kind that is not held nothing is counted, which would take memory.
        let is_there = u64::from(request.offset) < length;
        let number = self.holdings.number(request.kind);
        if !is_there || *self.serving.served(now, from, request.kind, number) > MAX_TIMES * length {
            self.counters.dropped += 1;
            return;
        }
        self.serve_in_turn(now, from, request);
    }

    /// Sends a whole document, which says also that it is held.
    pub(super) fn push(&mut self, now: Time, to: NodeId, kind: DocumentKind) {
        let number = self.holdings.number(kind);
        self.serve_in_turn(now, to, DocumentRequest { kind, number, offset: 0 });
    }

    fn serve_in_turn(&mut self, now: Time, to: NodeId, request: DocumentRequest) {
        let Some(remote) = self.remotes.get_mut(&to) else { return };
        if remote.wanted.replace(request).is_none() {
            self.serving.waiting.push_back(to);
        }
        self.poll_serving(now);
    }

    pub(super) fn poll_serving(&mut self, now: Time) {
        for _ in 0..MAX_PER_WAKE {
            if self.serving.next_due().is_none_or(|due| due > now) {
                return;
            }
            let Some(node) = self.serving.waiting.pop_front() else { return };
            self.serve(now, node);
        }
    }

    fn serve(&mut self, now: Time, node: NodeId) {
        let Some(remote) = self.remotes.get_mut(&node) else { return };
        let Some(DocumentRequest { kind, offset, .. }) = remote.wanted.take() else { return };
        let (number, Some(held)) = (self.holdings.number(kind), self.held.get(&kind)) else { return };
        let start = offset as usize;
        if start >= held.len() {
            return;
        }
        let (length, bytes) = (held.len() as u32, held.slice(start..held.len().min(start + MAX_DOCUMENT_PART)));
        *self.serving.served(now, node, kind, number) += bytes.len() as u64;
        remote.told.set(kind, number);
        self.serving.busy_until = self.serving.busy_until.max(now) + BYTE * bytes.len() as u32;
        let part = DocumentPart { kind, number, length, offset, bytes };
        self.sends.push_back((node, DocumentMessage::Document(part)));
    }
}
