//! `SHA256@BYTES`: what of an object is there already.

use std::fmt;
use std::str::FromStr;

use roost_proto::flow::{digest_text, parse_digest};
use roost_proto::wire::ResumePoint;

/// A [`ResumePoint`] as it stands in a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResumeText(pub(super) ResumePoint);

impl fmt::Display for ResumeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", digest_text(&self.0.digest), self.0.offset)
    }
}

impl FromStr for ResumeText {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('@').and_then(|(digest, offset)| {
            Some(ResumePoint { digest: parse_digest(digest)?, offset: offset.parse().ok()? })
        });
        parts
            .map(Self)
            .ok_or("expected the SHA-256 of the object in 64 hexadecimal digits, @, and how many bytes are there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = ResumeText(ResumePoint { digest: [0xab; 32], offset: 7 });
        assert_eq!(text.to_string().parse(), Ok(text));
        for wrong in ["", "@", "ab@7", &format!("{}@", "ab".repeat(32)), &format!("{}@-1", "ab".repeat(32))] {
            assert!(wrong.parse::<ResumeText>().is_err(), "{wrong}");
        }
    }
}
