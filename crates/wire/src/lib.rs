//! The words of the overlay: domain words, requests and messages.
//!
//! A message is CBOR with numbered fields ([`messages`]). Its limits stand beside its
//! fields, and decoding checks them: a value that was read is within them. Nothing here
//! opens a socket, reads a clock or decides anything.
//!
//! ```
//! use roost_wire::messages::{Message, MAX_MESSAGE_BYTES};
//!
//! let bytes = [0x82, 0x00, 0xff];
//! assert!(bytes.len() <= MAX_MESSAGE_BYTES);
//! assert!(Message::decode(&bytes).is_err(), "what is no message is refused");
//! ```

#![allow(missing_docs, reason = "a comment stands where it says more than the name; `messages` documents all")]

pub mod address;
pub mod block;
pub mod congestion;
pub mod delivery;
pub mod grid;
pub mod ids;
pub mod labels;
pub mod messages;
pub mod node_selector;
pub mod object;
mod open;
pub mod position;
pub mod printable;
pub mod random;
pub mod record;
pub mod reflection;
mod refusal;
pub mod remote;
pub mod role;
pub mod room;
pub mod scope;
pub mod service;
pub mod text;
pub mod time;

pub use address::{Address, Endpoint, HubName, Scheme, SchemeSet, SrvName, is_destination};
pub use congestion::Congestion;
pub use delivery::{Channel, Delivery, DeliveryClass, DeliveryClasses, DeliveryPreferences, Profile};
pub use grid::{Area, Cell};
pub use ids::{ConnectionId, DeliveryId, DialId, NodeId, Nonce, RequestId};
pub use labels::Labels;
pub use node_selector::{NodeSelector, format_node};
pub use position::{ExactPosition, LatLon, OrbitElements};
pub use printable::{printable, printable_json, printable_lines};
pub use record::{Capacity, Record, Version};
pub use reflection::{Epoch, EpochSecret, ReflectionGrant, StreamId, StreamTag};
pub use remote::RemoteIdentity;
pub use role::{Role, RoleSet};
pub use room::RoomId;
pub use scope::Scope;
pub use service::{FlowKind, Form, Metadata, Offer, Service, ServiceCode, ServiceName, ServiceSet};
pub use time::{LONGEST_ROUND_TRIP, Time};
