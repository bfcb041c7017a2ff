//! Media types, as offers carry them.

/// MPEG transport stream: datagrams of whole 188-byte packets.
pub const MPEG_TS: &str = "video/mp2t";
/// RTP packets as they came, payload H.264 (RFC 6184).
pub const RTP_H264: &str = "application/rtp; encoding=H264";
/// Track records, one JSON value a line.
pub const JSON_LINES: &str = "application/x-ndjson";
pub const JPEG: &str = "image/jpeg";
pub const PNG: &str = "image/png";
pub const TIFF: &str = "image/tiff";
/// The format is not known here.
pub const BYTES: &str = "application/octet-stream";
/// A SenML pack in JSON (RFC 8428).
pub const SENML_JSON: &str = "application/senml+json";
