//! Why a well-formed value is refused. minicbor has no word for it, so these travel as its custom errors.

use minicbor::decode::Error as DecodeError;

#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// A value of a later version, without which its message means nothing.
    #[error("a value of a later version")]
    LaterValue,
    #[error("{0}")]
    OutOfBounds(&'static str),
}

impl Refusal {
    /// The refusal in a decoder's error; `None` of bytes that are malformed.
    pub(crate) fn from_error(error: &DecodeError) -> Option<Self> {
        // The decoders of enumerations that messages are made of know numbers, not versions.
        let is_later = error.is_unknown_variant().then_some(Self::LaterValue);
        is_later.or_else(|| std::error::Error::source(error)?.downcast_ref().copied())
    }
}

/// Refuses a value outside its limits.
pub(crate) fn check_bound(holds: bool, violation: &'static str) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal::OutOfBounds(violation)) }
}

impl From<Refusal> for DecodeError {
    fn from(refusal: Refusal) -> Self {
        Self::custom(refusal)
    }
}
