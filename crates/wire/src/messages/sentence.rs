//! The reason of a program, in its own words.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

/// The longest [`Sentence`], bytes.
pub const MAX_SENTENCE_BYTES: usize = 200;

/// The words of a program that declines a request, for the requester: a text without control characters. A stranger
/// has written it, so it is shown in quotation marks. Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence(Arc<str>);

/// A text is no [`Sentence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reason to decline has 1 to {MAX_SENTENCE_BYTES} bytes, without control characters")]
pub struct InvalidSentence;

impl Sentence {
    /// The text alone, without the quotation marks that show it to be a stranger's.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Sentence {
    type Err = InvalidSentence;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = (1..=MAX_SENTENCE_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
        fits.then(|| Self(text.into())).ok_or(InvalidSentence)
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<C> Encode<C> for Sentence {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.str(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Sentence {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        d.str()?.parse().map_err(DecodeError::message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_short_lines() {
        let longest = "é".repeat(MAX_SENTENCE_BYTES / 2);
        for text in ["no map of there", "kein \"Plan\" – 地図なし", &longest] {
            let sentence: Sentence = text.parse().unwrap();
            assert_eq!((sentence.as_str(), sentence.to_string()), (text, text.to_owned()));
            let bytes = minicbor::to_vec(&sentence).unwrap();
            assert_eq!(minicbor::decode::<Sentence>(&bytes).unwrap(), sentence);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let too_long = format!("{}x", "é".repeat(MAX_SENTENCE_BYTES / 2));
        for text in ["", &too_long, "two\nlines", "\u{1b}[2J", "\u{9b}2J", "nul\0", "del\u{7f}"] {
            assert_eq!(text.parse::<Sentence>(), Err(InvalidSentence), "{text:?}");
            assert!(minicbor::decode::<Sentence>(&minicbor::to_vec(text).unwrap()).is_err(), "{text:?}");
        }
        let no_text: [&[u8]; 3] = [b"\x43abc", b"\x62\xff\xfe", b"\x7b\xff\xff\xff\xff\xff\xff\xff\xff"];
        assert!(no_text.iter().all(|bytes| minicbor::decode::<Sentence>(bytes).is_err()));
    }
}
