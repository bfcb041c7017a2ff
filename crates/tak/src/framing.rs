//! Events out of a stream of bytes, in which nothing but their end tags parts them.

/// The longest event, bytes. Those of ATAK have one or two thousand, with a drawn shape some tens of thousands.
pub(crate) const MAX_EVENT_BYTES: usize = 64 * 1024;

const START: &[u8] = b"<event";
const END: &[u8] = b"</event>";

/// Cuts events out of pieces of any size. What stands between them is left out.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    held: Vec<u8>,
    /// The bytes of `held` in which no end begins.
    searched: usize,
    /// The event at hand is too long: all is left out until its end.
    skips: bool,
    /// Events that were too long, since the start.
    too_long: u64,
}

impl Framing {
    pub(crate) const fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Appends a piece, and hands each event that is complete to `take`. It holds at most an event and the piece.
    pub(crate) fn push(&mut self, piece: &[u8], mut take: impl FnMut(&[u8])) {
        self.held.extend_from_slice(piece);
        let mut begin = 0;
        while let Some(end) = find(&self.held[begin + self.searched..], END) {
            let end = begin + self.searched + end + END.len();
            let event = &self.held[begin..end];
            if !std::mem::take(&mut self.skips) {
                // An event without a body has no end tag: the one that ends here began last.
                match last_start(event) {
                    Some(start) if event.len() - start > MAX_EVENT_BYTES => self.too_long += 1,
                    Some(start) => take(&event[start..]),
                    None => {}
                }
            }
            (begin, self.searched) = (end, 0);
        }
        self.held.drain(..begin);
        self.limit();
        self.searched = self.held.len().saturating_sub(END.len() - 1);
    }

    fn limit(&mut self) {
        if self.held.len() <= MAX_EVENT_BYTES {
            return;
        }
        if !self.skips {
            self.too_long += 1;
        }
        self.skips = true;
        // The beginning of an end tag may stand last.
        self.held.drain(..self.held.len() - (END.len() - 1));
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// The place of the last tag of an event; `<events>` is another tag.
fn last_start(text: &[u8]) -> Option<usize> {
    let begins = |window: &[u8]| {
        let (tag, next) = window.split_at(START.len());
        tag == START && (next[0].is_ascii_whitespace() || next[0] == b'>')
    };
    text.windows(START.len() + 1).rposition(begins)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(framing: &mut Framing, bytes: &[u8], sizes: &[usize]) -> Vec<Vec<u8>> {
        let (mut events, mut rest) = (Vec::new(), bytes);
        for size in sizes.iter().copied().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, left) = rest.split_at(size.clamp(1, rest.len()));
            framing.push(piece, |event| events.push(event.to_vec()));
            rest = left;
        }
        events
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            bodies in prop::collection::vec("[a-z<>/ ]{0,40}", 0..8),
            sizes in prop::collection::vec(1_usize..50, 1..20),
        ) {
            let events: Vec<String> = bodies.iter().map(|body| format!("<event u='{body}'></event>")).collect();
            let stream = events.join("\n<?xml version='1.0'?>");
            let found = cut(&mut Framing::default(), stream.as_bytes(), &sizes);
            let found: Vec<_> = found.into_iter().map(|event| String::from_utf8(event).unwrap()).collect();
            prop_assert_eq!(found, events);
        }

        #[test]
        fn any_bytes_are_bounded(bytes in prop::collection::vec(any::<u8>(), 0..2000), size in 1_usize..100) {
            let mut framing = Framing::default();
            cut(&mut framing, &bytes, &[size]);
            prop_assert!(framing.held.len() <= MAX_EVENT_BYTES);
        }
    }

    #[test]
    fn long_event_is_left_out() {
        let mut framing = Framing::default();
        let long = format!("<event>{}</event><event>b</event>", "x".repeat(3 * MAX_EVENT_BYTES));
        assert_eq!(cut(&mut framing, long.as_bytes(), &[1000]), [b"<event>b</event>"]);
        assert_eq!(framing.too_long(), 1);
        let at_once = format!("<event>{}</event><event>c</event>", "x".repeat(MAX_EVENT_BYTES));
        assert_eq!(cut(&mut framing, at_once.as_bytes(), &[at_once.len()]), [b"<event>c</event>"]);
        assert_eq!(framing.too_long(), 2);
        let endless = vec![b'x'; 10 * MAX_EVENT_BYTES];
        assert!(cut(&mut framing, &endless, &[4096]).is_empty());
        assert!(framing.held.len() <= MAX_EVENT_BYTES);
    }

    #[test]
    fn event_without_body_delays_none() {
        let found = cut(&mut Framing::default(), b"<event a='1'/><event b='2'></event>", &[5]);
        assert_eq!(found, [b"<event b='2'></event>"]);
    }
}
