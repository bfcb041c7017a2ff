//! Which packets have been taken: a window that slides (RFC 4303, section
//! 3.4.3), as a ring of words that are cleared when it moves on (RFC 6479).

/// How far behind the greatest counter a packet may come: half a second of a
/// stream of 2000 packets a second.
pub(crate) const WINDOW: u64 = 1024;

const WORD_BITS: u64 = u64::BITS as u64;
/// One word more than the window: the one that is being filled.
const WORDS: usize = (WINDOW / WORD_BITS) as usize + 1;

/// What a window knows of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was not taken yet.
    New,
    /// It was taken.
    Taken,
    /// It is behind the window: nobody can tell.
    Behind,
}

/// The counters that were taken, of the last [`WINDOW`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    greatest: Option<u64>,
    words: [u64; WORDS],
}

impl Window {
    pub(crate) fn greatest(&self) -> Option<u64> {
        self.greatest
    }

    pub(crate) fn look(&self, counter: u64) -> Known {
        match self.greatest {
            Some(greatest) if counter > greatest => Known::New,
            Some(greatest) if greatest - counter >= WINDOW => Known::Behind,
            Some(_) if self.words[place(counter)] & bit(counter) != 0 => Known::Taken,
            _ => Known::New,
        }
    }

    /// Notes a counter that is new and not behind.
    pub(crate) fn take(&mut self, counter: u64) {
        let block = counter / WORD_BITS;
        match self.greatest {
            Some(greatest) if counter > greatest => {
                let blocks = (block - greatest / WORD_BITS).min(WORDS as u64);
                (0..blocks).for_each(|back| self.words[place((block - back) * WORD_BITS)] = 0);
                self.greatest = Some(counter);
            }
            Some(_) => {}
            None => self.greatest = Some(counter),
        }
        self.words[place(counter)] |= bit(counter);
    }
}

fn place(counter: u64) -> usize {
    // Below the number of words.
    (counter / WORD_BITS % WORDS as u64) as usize
}

const fn bit(counter: u64) -> u64 {
    1 << (counter % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Beside a set that forgets nothing.
        #[test]
        fn each_counter_is_new_once(
            start in prop_oneof![Just(0), Just(u64::MAX - 5000), any::<u64>()],
            steps in proptest::collection::vec((0..3_u8, 0..3000_u64), 1..400),
        ) {
            let (mut window, mut taken) = (Window::default(), BTreeSet::new());
            let mut greatest: Option<u64> = None;
            for (way, far) in steps {
                let from = greatest.unwrap_or(start);
                let counter = if way == 0 { from.saturating_add(far) } else { from.saturating_sub(far) };
                let expected = match greatest {
                    Some(greatest) if counter <= greatest && greatest - counter >= WINDOW => Known::Behind,
                    _ if taken.contains(&counter) => Known::Taken,
                    _ => Known::New,
                };
                prop_assert_eq!(window.look(counter), expected);
                if expected == Known::New {
                    window.take(counter);
                    taken.insert(counter);
                    greatest = Some(from.max(counter)).filter(|_| greatest.is_some()).or(Some(counter));
                }
            }
        }
    }
}
