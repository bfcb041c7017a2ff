//! Enumerations to which later versions add.
//!
//! A number that is not known here never refuses what it stands in: it reads as a
//! value that means as much, or the element that it is part of is left out.

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decoder, Encode, Encoder};

use crate::address::Address;

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

/// A value of a later version, without which its message means nothing.
#[derive(Debug, thiserror::Error)]
#[error("a value of a later version")]
struct LaterValue;

/// Refuses a message for a value of a later version. An unknown variant would not do: a decoder of
/// optional fields takes it for nothing, and skips the item after it.
pub(crate) fn unknown() -> DecodeError {
    DecodeError::custom(LaterValue)
}

/// True if a message is refused because only later versions know it, or a value in it.
pub(crate) fn is_later(error: &DecodeError) -> bool {
    error.is_custom() || error.is_unknown_variant()
}

/// Makes an enumeration one that is open. Unless it is told what a value of a later
/// version reads as, such a value makes its whole message one of a later version.
macro_rules! open {
    ($type:ty, [$($value:ident),+ $(,)?] $(, else $unknown:ident)?) => {
        impl $crate::messages::open::Open for $type {
            const VALUES: &'static [Self] = &[$(Self::$value),+];
        }

        impl<'b, C> minicbor::Decode<'b, C> for $type {
            fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
                let value = $crate::messages::open::value(d)?;
                $(let value = value.or(Some(Self::$unknown));)?
                value.ok_or_else($crate::messages::open::unknown)
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

/// For lists of addresses, and such as may be absent: an address of a scheme of a
/// later version is left out.
pub(crate) mod addresses {
    use minicbor::data::Type;

    use super::*;

    /// `Vec<Address>` and `Option<Vec<Address>>`, to write.
    pub(crate) trait AsList {
        fn as_list(&self) -> Option<&[Address]>;
    }

    impl AsList for Vec<Address> {
        fn as_list(&self) -> Option<&[Address]> {
            Some(self)
        }
    }

    impl AsList for Option<Vec<Address>> {
        fn as_list(&self) -> Option<&[Address]> {
            self.as_deref()
        }
    }

    impl<L: AsList> AsList for &L {
        fn as_list(&self) -> Option<&[Address]> {
            L::as_list(self)
        }
    }

    /// The same, to read.
    pub(crate) trait List: Sized {
        fn from_list(list: Option<Vec<Address>>) -> Option<Self>;
    }

    impl List for Vec<Address> {
        fn from_list(list: Option<Vec<Address>>) -> Option<Self> {
            list
        }
    }

    impl List for Option<Vec<Address>> {
        fn from_list(list: Option<Vec<Address>>) -> Option<Self> {
            Some(list)
        }
    }

    pub(crate) fn encode<L: AsList, C, W: Write>(
        list: &L,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        match list.as_list() {
            Some(list) => list.encode(e, ctx),
            None => e.null()?.ok(),
        }
    }

    pub(crate) fn decode<L: List, C>(d: &mut Decoder<'_>, _: &mut C) -> Result<L, DecodeError> {
        let list = if d.datatype()? == Type::Null {
            d.null()?;
            None
        } else {
            Some(read(d)?)
        };
        L::from_list(list).ok_or_else(|| DecodeError::message("a list of addresses is missing"))
    }

    /// Reads a list of addresses; those of transports that are not known here are left out.
    ///
    /// # Errors
    /// When the bytes are no list of addresses.
    pub fn read(d: &mut Decoder<'_>) -> Result<Vec<Address>, DecodeError> {
        let length = d.array()?.ok_or_else(|| DecodeError::message("a list of addresses has a length"))?;
        // A message has no room for more than it has bytes, so the loop is as short as it.
        (0..length).filter_map(|_| Address::read(d).transpose()).collect()
    }

    pub(crate) fn is_nil<L: AsList>(list: &L) -> bool {
        list.as_list().is_none()
    }

    pub(crate) fn nil<L: List>() -> Option<L> {
        L::from_list(None)
    }
}
