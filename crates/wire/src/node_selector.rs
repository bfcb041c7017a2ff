//! People name a node by the name in its certificate, or by the beginning of its id.

use std::fmt;
use std::str::FromStr;

use minicbor::decode::{Decoder, Error as DecodeError};
use minicbor::encode::{Encoder, Error as EncodeError, Write};
use minicbor::{Decode, Encode};

use crate::ids::NodeId;
use crate::printable::printable;

/// The longest name of a node, bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// A name, or the beginning of an id. The empty one means everybody.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSelector {
    bytes: [u8; MAX_NAME_BYTES],
    length: u8,
}

/// A text is longer than any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a node's name has at most {MAX_NAME_BYTES} bytes")]
pub struct SelectorTooLong;

/// True if a text can be the name in a certificate: such a name is safe in a file name and on a terminal.
pub fn is_node_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    first && text.len() <= MAX_NAME_BYTES && text.bytes().all(plain)
}

/// A node as people read it: its name, if that is known, beside the beginning of its id.
pub fn format_node(node: NodeId, name: Option<&str>) -> String {
    match name {
        // A hub may tell any name.
        Some(name) => format!("{} ({node:?})", printable(name)),
        None => format!("{node:?}"),
    }
}

impl NodeSelector {
    pub const EVERYBODY: Self = Self { bytes: [0; MAX_NAME_BYTES], length: 0 };

    pub fn as_str(&self) -> &str {
        // The bytes come from a text.
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }

    /// True if it names no node in particular.
    pub const fn is_everybody(&self) -> bool {
        self.length == 0
    }

    /// True if it may mean the node with this id and, as far as it is known, this name.
    pub fn matches(&self, node: NodeId, name: Option<&str>) -> bool {
        self.is_everybody() || name == Some(self.as_str()) || self.begins(node)
    }

    fn begins(&self, node: NodeId) -> bool {
        let digits = &self.bytes[..usize::from(self.length)];
        let digit_of = |index: usize| {
            let byte = node.as_bytes()[index / 2];
            if index.is_multiple_of(2) { byte >> 4 } else { byte & 15 }
        };
        let same = |(index, digit): (usize, &u8)| {
            char::from(*digit).to_digit(16).is_some_and(|value| value == u32::from(digit_of(index)))
        };
        digits.len() <= 2 * node.as_bytes().len() && digits.iter().enumerate().all(same)
    }
}

impl FromStr for NodeSelector {
    type Err = SelectorTooLong;

    fn from_str(text: &str) -> Result<Self, SelectorTooLong> {
        let mut called = Self::EVERYBODY;
        called.bytes.get_mut(..text.len()).ok_or(SelectorTooLong)?.copy_from_slice(text.as_bytes());
        called.length = u8::try_from(text.len()).map_err(|_| SelectorTooLong)?;
        Ok(called)
    }
}

impl From<NodeId> for NodeSelector {
    fn from(node: NodeId) -> Self {
        // 32 digits are no more than a name may have.
        node.to_string().parse().unwrap_or(Self::EVERYBODY)
    }
}

impl fmt::Display for NodeSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for NodeSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<C> Encode<C> for NodeSelector {
    fn encode<W: Write>(&self, encoder: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        encoder.str(self.as_str())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for NodeSelector {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        decoder.str()?.parse().map_err(|SelectorTooLong| DecodeError::message("a name is too long"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(text: &str) -> NodeSelector {
        text.parse().unwrap()
    }

    #[test]
    fn name_or_id_prefix_matches_node() {
        let node: NodeId = "6f0c2f1a9be04d7bb21f0e6f2d1c8a55".parse().unwrap();
        for (text, means) in [
            ("", true),
            ("uav7", true),
            ("uav", false),
            ("uav77", false),
            ("6", true),
            ("6F0C2f1a", true),
            ("6f0c2f1a9be04d7bb21f0e6f2d1c8a55", true),
            ("6f0c2f1a9be04d7bb21f0e6f2d1c8a550", false),
            ("6g", false),
            ("7", false),
        ] {
            assert_eq!(called(text).matches(node, Some("uav7")), means, "{text}");
        }
        assert!(!called("uav7").matches(node, None));
        assert!(NodeSelector::from(node).matches(node, None));
    }

    #[test]
    fn node_prints_name_and_short_id() {
        let node: NodeId = "6f0c2f1a9be04d7bb21f0e6f2d1c8a55".parse().unwrap();
        assert_eq!(format_node(node, Some("uav7")), "uav7 (6f0c2f1a)");
        assert_eq!(format_node(node, None), "6f0c2f1a");
        assert_eq!(format_node(node, Some("a\nb")), "a\\nb (6f0c2f1a)");
    }

    #[test]
    fn names_are_plain() {
        for name in ["a", "7", "uav-7.west_2", &"n".repeat(64)] {
            assert!(is_node_name(name), "{name}");
        }
        for name in ["", ".", "..", "-h", "a/b", "a b", "ü", "a:b", "a\u{1b}[2J", &"n".repeat(65)] {
            assert!(!is_node_name(name), "{name}");
        }
    }

    #[test]
    fn selector_round_trips_within_length_limit() {
        for text in ["", "uav7", &"n".repeat(64)] {
            let bytes = minicbor::to_vec(called(text)).unwrap();
            assert_eq!(minicbor::decode::<NodeSelector>(&bytes).unwrap(), called(text));
        }
        assert_eq!("n".repeat(65).parse::<NodeSelector>(), Err(SelectorTooLong));
        let bytes = minicbor::to_vec("n".repeat(65)).unwrap();
        assert!(minicbor::decode::<NodeSelector>(&bytes).is_err());
    }
}
