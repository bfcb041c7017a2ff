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

/// A media type: the number of a usual one, else its text.
pub(super) mod media_type {
    use minicbor::data::Type;

    use super::*;

    /// The usual media types, each at the place of its number; later versions add to the end.
    const USUAL: [&str; 8] = [
        "video/mp2t",
        "application/rtp; encoding=H264",
        "application/x-ndjson",
        "image/jpeg",
        "image/png",
        "image/tiff",
        "application/octet-stream",
        "application/senml+json",
    ];

    /// Read for the number of a later version.
    const UNKNOWN: &str = "application/octet-stream";

    pub(crate) fn encode<C, W: Write>(text: &str, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        match USUAL.iter().position(|usual| *usual == text) {
            Some(number) => e.u8(number as u8)?.ok(),
            None => e.str(text)?.ok(),
        }
    }

    pub(crate) fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<String, DecodeError> {
        if matches!(d.datatype()?, Type::String) {
            return Ok(d.str()?.to_owned());
        }
        let number = usize::try_from(d.u64()?).unwrap_or(usize::MAX);
        Ok(USUAL.get(number).copied().unwrap_or(UNKNOWN).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str) -> (usize, String) {
        let mut bytes = Vec::new();
        media_type::encode(text, &mut Encoder::new(&mut bytes), &mut ()).unwrap();
        (bytes.len(), media_type::decode(&mut Decoder::new(&bytes), &mut ()).unwrap())
    }

    #[test]
    fn usual_media_types_take_one_byte() {
        assert_eq!(round_trip("application/senml+json"), (1, "application/senml+json".to_owned()));
        assert_eq!(round_trip("acme/lidar"), (11, "acme/lidar".to_owned()));
        let later = minicbor::to_vec(200u8).unwrap();
        assert_eq!(media_type::decode(&mut Decoder::new(&later), &mut ()).unwrap(), "application/octet-stream");
    }
}
