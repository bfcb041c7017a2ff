//! `Bytes` (or an absent one) as a CBOR byte string.

use bytes::Bytes;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decoder, Encoder};

/// `Bytes` and `Option<Bytes>`, which differ in whether `null` is allowed.
pub(super) trait Blob: Sized {
    fn as_slice(&self) -> Option<&[u8]>;
    fn from_slice(slice: Option<&[u8]>) -> Option<Self>;
}

impl Blob for Bytes {
    fn as_slice(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn from_slice(slice: Option<&[u8]>) -> Option<Self> {
        slice.map(Self::copy_from_slice)
    }
}

impl Blob for Option<Bytes> {
    fn as_slice(&self) -> Option<&[u8]> {
        self.as_deref()
    }

    fn from_slice(slice: Option<&[u8]>) -> Option<Self> {
        Some(slice.map(Bytes::copy_from_slice))
    }
}

pub(super) fn encode<B: Blob, C, W: Write>(
    blob: &B,
    e: &mut Encoder<W>,
    _: &mut C,
) -> Result<(), EncodeError<W::Error>> {
    match blob.as_slice() {
        Some(slice) => e.bytes(slice)?.ok(),
        None => e.null()?.ok(),
    }
}

pub(super) fn decode<'b, B: Blob, C>(d: &mut Decoder<'b>, _: &mut C) -> Result<B, DecodeError> {
    let slice = if d.datatype()? == minicbor::data::Type::Null {
        d.null()?;
        None
    } else {
        Some(d.bytes()?)
    };
    B::from_slice(slice).ok_or_else(|| DecodeError::message("a byte string is missing"))
}
