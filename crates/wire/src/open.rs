//! Enumerations to which later versions add.
//!
//! A number that is not known here never refuses what it stands in: it reads as a
//! value that means as much, or the element that it is part of is left out.

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decoder, Encode, Encoder};

use crate::refusal::Refusal;

/// An enumeration whose values are numbers on the wire.
pub(crate) trait Open: Copy + 'static {
    /// All that are known, each at the place of its number.
    const VALUES: &'static [Self];
}

/// Reads a value; `None` if it is of a later version.
pub(crate) fn value<T: Open>(d: &mut Decoder<'_>) -> Result<Option<T>, DecodeError> {
    let number = d.u64()?;
    Ok(usize::try_from(number).ok().and_then(|number| T::VALUES.get(number)).copied())
}

/// Refuses a message for a value of a later version. An unknown variant would not do: a decoder of
/// optional fields takes it for nothing, and skips the item after it.
pub(crate) fn unknown() -> DecodeError {
    Refusal::LaterValue.into()
}

/// Makes an enumeration one that is open. Unless it is told what a value of a later
/// version reads as, such a value makes its whole message one of a later version.
macro_rules! open {
    ($type:ty, [$($value:ident),+ $(,)?] $(, else $unknown:ident)?) => {
        impl $crate::open::Open for $type {
            const VALUES: &'static [Self] = &[$(Self::$value),+];
        }

        impl<'b, C> minicbor::Decode<'b, C> for $type {
            fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
                let value = $crate::open::value(d)?;
                $(let value = value.or(Some(Self::$unknown));)?
                value.ok_or_else($crate::open::unknown)
            }
        }
    };
}
pub(crate) use open;

/// For optional values: one of a later version is none.
pub(crate) mod optional {
    use minicbor::data::Type;

    use super::*;

    pub(crate) fn encode<T: Encode<C>, C, W: Write>(
        value: &Option<T>,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        value.encode(e, ctx)
    }

    pub(crate) fn decode<T: Open, C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Option<T>, DecodeError> {
        if d.datatype()? == Type::Null {
            d.null()?;
            return Ok(None);
        }
        value(d)
    }

    pub(crate) fn is_nil<T>(value: &Option<T>) -> bool {
        value.is_none()
    }

    pub(crate) fn nil<T>() -> Option<Option<T>> {
        Some(None)
    }
}
