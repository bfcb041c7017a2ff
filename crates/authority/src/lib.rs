//! The group's authority on the network: devices join with an invitation, and members renew their certificates and fetch
//! the group's documents, over HTTPS with JSON bodies.
//!
//! | route | |
//! |---|---|
//! | `POST /v1/join` | `{token, request, host}`; 200 with the [`Answer`](roost_identity::Answer), or 202 with `{ticket}` while an operator has to approve |
//! | `GET /v1/join/TICKET` | waits up to a minute; 200 with the answer, 202 if nobody has decided yet |
//! | `POST /v1/renew` | `{request}`, with the member's certificate; 200 with the answer |
//! | `GET /v1/documents?revocations=N&policy=M&trust=K&waits=BOOL` | with the member's certificate; waits up to a minute for a newer document |
//!
//! Requests are PKCS#10, DER, in base64. A refusal is `{error, code}`: one sentence, and a word for programs.
//!
//! A [`Server`] serves a group's folder. Its decisions are in `desk`, which gets the time and has no sockets; the table
//! of invitations itself is `roost-identity`'s. A [`Client`] is the other side, for `roost join` and for daemons.
#![allow(missing_docs, reason = "only crates of this workspace import it")]

mod allowances;
mod client;
mod connections;
mod desk;
mod jobs;
mod messages;
mod routes;
mod server;

pub use client::{Client, ClientError, RenewError, renew};
pub use messages::Holdings;
pub use server::{Server, ServerError};
