//! The end of a QUIC connection: its refusal, and the sentence for people.

use quinn::ConnectionError;
use roost_identity::{Refusal, Side};

use crate::transport::given;

/// The refusal that ended a QUIC connection, and the side that refused.
pub(super) fn refusal(error: &ConnectionError) -> Option<(Side, Refusal)> {
    let (side, code, words) = match error {
        ConnectionError::TransportError(error) => (Side::Local, error.code, &*error.reason),
        ConnectionError::ConnectionClosed(close) => (Side::Remote, close.error_code, ""),
        _ => return None,
    };
    // An alert is a code of 0x100 and more (RFC 9001, section 4.8).
    let alert = u64::from(code).checked_sub(0x100).and_then(|alert| u8::try_from(alert).ok())?;
    // Two refusals share an alert. Our own error says which one it is.
    let stranger = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer).to_string();
    if words.contains(&stranger) {
        return Some((side, Refusal::UnknownAuthority));
    }
    Refusal::from_alert(alert).map(|refusal| (side, refusal))
}

/// The end of a QUIC connection as a sentence for people.
pub(super) fn sentence(error: &ConnectionError) -> String {
    if let Some((side, refusal)) = refusal(error) {
        return side.sentence(refusal);
    }
    match error {
        ConnectionError::ApplicationClosed(close) if !close.reason.is_empty() => {
            given(&String::from_utf8_lossy(&close.reason))
        }
        ConnectionError::ApplicationClosed(_) => "the remote closed the connection".to_owned(),
        ConnectionError::TimedOut => "the remote has not been heard for too long".to_owned(),
        ConnectionError::Reset => "the remote no longer knows the connection".to_owned(),
        ConnectionError::LocallyClosed => "the remote broke the protocol".to_owned(),
        // The reason may contain text from the remote.
        other => given(&other.to_string()),
    }
}
