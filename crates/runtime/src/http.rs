//! The few words of HTTP in which a daemon writes its endpoints: the library
//! behind them is named in this crate and in `roost-api` only.

pub use axum::Router;
pub use axum::body::Body;
pub use axum::extract::State;
pub use axum::http::{HeaderMap, HeaderValue, header};
pub use axum::response::{IntoResponse, Response};
pub use axum::routing::{get, post};
