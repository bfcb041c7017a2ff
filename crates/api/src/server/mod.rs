//! The daemon's side of the local API: socket, error answers and query parameters. Routes belong to the daemon.

mod answer;
mod socket;

pub use self::answer::{ApiError, JsonBody, TextBody, json_line, json_response, with_fallback};
pub use self::socket::{ControlSocket, MAX_SOCKET_PATH_BYTES, SocketError};
pub use crate::query::QueryPairs;
pub use crate::serving::{CallerLimits, serve};
