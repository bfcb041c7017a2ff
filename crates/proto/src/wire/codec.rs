//! CBOR forms of fields that minicbor has none for.

use bytes::Bytes;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

/// Encodes a value into memory, which takes every write.
pub(crate) fn to_bytes<T: Encode<()>>(value: &T) -> Bytes {
    let mut buffer = Vec::with_capacity(64);
    match minicbor::encode(value, &mut buffer) {
        Ok(()) => Bytes::from(buffer),
        // No field has a fallible encoding of its own.
        Err(error) => unreachable!("encoding into memory cannot fail: {error}"),
    }
}

/// Leaves out a field that has its default.
pub(super) mod or_default {
    use super::*;

    pub(crate) fn encode<T: Encode<C>, C, W: Write>(
        value: &T,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        value.encode(e, ctx)
    }

    pub(crate) fn decode<'b, T: Decode<'b, C>, C>(d: &mut Decoder<'b>, ctx: &mut C) -> Result<T, DecodeError> {
        T::decode(d, ctx)
    }

    pub(crate) fn is_nil<T: Default + PartialEq>(value: &T) -> bool {
        *value == T::default()
    }

    pub(crate) fn nil<T: Default>() -> Option<T> {
        Some(T::default())
    }
}

/// An optional duration in whole milliseconds; one that is longer than they can say is as long.
pub(super) mod millis {
    use std::time::Duration;

    use super::*;

    pub(crate) fn encode<C, W: Write>(
        value: &Option<Duration>,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        match value {
            Some(duration) => e.u32(u32::try_from(duration.as_millis()).unwrap_or(u32::MAX))?.ok(),
            None => e.null()?.ok(),
        }
    }

    pub(crate) fn decode<C>(d: &mut Decoder<'_>, ctx: &mut C) -> Result<Option<Duration>, DecodeError> {
        let millis = Option::<u32>::decode(d, ctx)?;
        Ok(millis.map(|millis| Duration::from_millis(millis.into())))
    }

    pub(crate) fn is_nil(value: &Option<Duration>) -> bool {
        value.is_none()
    }

    pub(crate) fn nil() -> Option<Option<Duration>> {
        Some(None)
    }
}
