//! Relays in virtual time: publishers, hubs and subscribers joined by connections that delay, lose,
//! repeat and reorder. Each test holds for any seed:
//! `ROOST_SEEDS=100` runs what varies for so many.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it stands")]

mod changes;
mod congestion;
mod hostile;
mod joins;
mod network;
mod repair;
mod single;
mod stream_world;
mod streams;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use roost_core::node::{NodeCommand, SessionId, Ticket};
use roost_reflection::control::*;
use roost_reflection::keys::AnnouncedKey;
use roost_reflection::packet::OVERHEAD_BYTES;
use roost_reflection::publication::*;
use roost_reflection::relay::*;
use roost_reflection::subscription::*;
use roost_reflection::*;
use roost_wire::random::SplitMix64;
use roost_wire::reflection::StartCondition;
use roost_wire::{NodeId, Service, Time};

use network::*;
use stream_world::*;
use world::*;
