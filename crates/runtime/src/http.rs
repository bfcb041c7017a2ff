//! The names of HTTP with which a daemon writes its endpoints. Only this crate and `roost-api` name the library behind
//! them.

pub use axum::Router;
pub use axum::body::{Body, BodyDataStream, to_bytes};
pub use axum::extract::State;
pub use axum::http::{HeaderMap, HeaderValue, header};
pub use axum::response::{IntoResponse, Response};
pub use axum::routing::{get, post};
