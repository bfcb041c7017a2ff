//! Lists of addresses on the wire, and such as may be absent: an address of a scheme of a later
//! version is left out.

use minicbor::data::Type;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decoder, Encode, Encoder};

use super::Address;
use crate::refusal::check_bound;

/// The most addresses in one list: those of a node or a hub, or those of the hubs that a node may turn to.
pub const MAX_ADDRESSES: usize = 8;

/// Lists to write: `Vec<Address>`, and `Option<Vec<Address>>`.
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

/// Lists to read: `Vec<Address>`, and `Option<Vec<Address>>`.
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
/// Fails if the bytes are no list of at most [`MAX_ADDRESSES`] addresses.
pub fn read(d: &mut Decoder<'_>) -> Result<Vec<Address>, DecodeError> {
    let length = d.array()?.ok_or_else(|| DecodeError::message("a list of addresses has a length"))?;
    // A message has no room for more than it has bytes, so the loop is as short as it.
    let known = (0..length).filter_map(|_| Address::read(d).transpose()).collect::<Result<Vec<_>, _>>()?;
    check_bound(known.len() <= MAX_ADDRESSES, "too many addresses")?;
    Ok(known)
}

pub(crate) fn is_nil<L: AsList>(list: &L) -> bool {
    list.as_list().is_none()
}

pub(crate) fn nil<L: List>() -> Option<L> {
    L::from_list(None)
}
