//! The reasons for refusing a certificate, as sentences, codes, metric labels and TLS alerts.

use std::fmt;
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError, OtherError};

/// The reason for which a certificate is refused.
///
/// `Display` gives the bare reason with "it" for the certificate, so that both sides can put it in a sentence;
/// [`Side::sentence`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// There is no certificate, or a group would not issue one of this form.
    Malformed = 1,
    /// An unknown authority signed it, and it does not name another group.
    UnknownAuthority = 2,
    WrongGroup = 3,
    Expired = 4,
    NotYetValid = 5,
    Revoked = 6,
    /// The certificate is of the group, but its role is not an expected one.
    WrongRole = 7,
}

impl Refusal {
    pub const ALL: [Self; 7] = [
        Self::Malformed,
        Self::UnknownAuthority,
        Self::WrongGroup,
        Self::Expired,
        Self::NotYetValid,
        Self::Revoked,
        Self::WrongRole,
    ];

    /// The number on the wire, which is never 0.
    pub const fn code(self) -> u8 {
        self as u8
    }

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.code() == code)
    }

    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownAuthority => "stranger",
            Self::WrongGroup => "wrong_group",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Revoked => "revoked",
            Self::WrongRole => "wrong_role",
        }
    }

    /// The TLS alert (RFC 8446, section 6) that tells the remote the reason.
    pub fn alert(self) -> u8 {
        AlertDescription::from(self.certificate_error()).into()
    }

    /// The refusal of our certificate that a remote's alert reports. `None` if the alert is not about a certificate.
    ///
    /// `unknown_ca` becomes [`Refusal::WrongGroup`]: our certificate names a group, so a verifier that does not know
    /// our CA belongs to another one.
    pub fn from_alert(alert: u8) -> Option<Self> {
        match AlertDescription::from(alert) {
            AlertDescription::BadCertificate => Some(Self::Malformed),
            AlertDescription::UnknownCA => Some(Self::WrongGroup),
            AlertDescription::CertificateExpired => Some(Self::Expired),
            AlertDescription::CertificateUnknown => Some(Self::NotYetValid),
            AlertDescription::CertificateRevoked => Some(Self::Revoked),
            AlertDescription::AccessDenied => Some(Self::WrongRole),
            _ => None,
        }
    }

    /// True if the refusal is about a proven member of the group that is not admitted any more, or not yet. The other
    /// refusals may come from a stranger that uses the same address now.
    pub const fn bars_member(self) -> bool {
        matches!(self, Self::Revoked | Self::Expired | Self::NotYetValid)
    }

    /// Finds the side and the refusal in a text that [`Side::sentence`] made. On every transport a connection's end
    /// carries the refusal in this one form.
    pub fn in_sentence(text: &str) -> Option<(Side, Self)> {
        let sides = [Side::Local, Side::Remote].into_iter();
        let mut all = sides.flat_map(|side| Self::ALL.into_iter().map(move |refusal| (side, refusal)));
        all.find(|(side, refusal)| side.sentence(*refusal) == text)
    }

    /// The rustls error that makes rustls send the right alert.
    ///
    /// Two of the choices look odd, and the reason is the alert and telling refusals apart on our side. `Other` is the
    /// only error that is sent as `certificate_unknown`, which keeps "not yet valid" distinct from "expired". Besides
    /// `UnknownIssuer`, only `UnknownRevocationStatus` is sent as `unknown_ca`.
    pub(crate) fn certificate_error(self) -> CertificateError {
        match self {
            Self::Malformed => CertificateError::BadEncoding,
            Self::UnknownAuthority => CertificateError::UnknownIssuer,
            Self::WrongGroup => CertificateError::UnknownRevocationStatus,
            Self::Expired => CertificateError::Expired,
            Self::NotYetValid => CertificateError::Other(OtherError(Arc::new(self))),
            Self::Revoked => CertificateError::Revoked,
            Self::WrongRole => CertificateError::ApplicationVerificationFailure,
        }
    }

    fn from_certificate_error(error: &CertificateError) -> Option<Self> {
        match error {
            CertificateError::Other(OtherError(inner)) => inner.downcast_ref().copied(),
            known => Self::ALL.into_iter().find(|refusal| refusal.certificate_error() == *known),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it is malformed",
            Self::UnknownAuthority => "it was signed by an unknown authority",
            Self::WrongGroup => "it belongs to another group",
            Self::Expired => "it has expired",
            Self::NotYetValid => "it is not valid yet",
            Self::Revoked => "it was revoked",
            Self::WrongRole => "its role is not the one required",
        })
    }
}

impl std::error::Error for Refusal {}

/// The side of a connection that refused the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    Local,
    Remote,
}

impl Side {
    /// The refusal in one sentence without a full stop, for this side's log or error message.
    pub fn sentence(self, refusal: Refusal) -> String {
        match self {
            Self::Local => format!("we refused the remote's certificate because {refusal}"),
            Self::Remote => format!("the remote refused our certificate because {refusal}"),
        }
    }
}

/// The refusal of a certificate that made a TLS handshake fail, and the side that refused. `None` if it failed for
/// another reason.
pub fn refusal_from_tls_error(error: &rustls::Error) -> Option<(Side, Refusal)> {
    match error {
        rustls::Error::InvalidCertificate(inner) => {
            Refusal::from_certificate_error(inner).map(|refusal| (Side::Local, refusal))
        }
        rustls::Error::AlertReceived(alert) => {
            Refusal::from_alert(u8::from(*alert)).map(|refusal| (Side::Remote, refusal))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_local_errors_read_back() {
        for refusal in Refusal::ALL {
            assert_eq!(Refusal::from_code(refusal.code()), Some(refusal));
            let error = rustls::Error::InvalidCertificate(refusal.certificate_error());
            assert_eq!(refusal_from_tls_error(&error), Some((Side::Local, refusal)));
        }
        assert_eq!(Refusal::from_code(0), None);
    }

    #[test]
    fn alerts_round_trip_except_unknown_authority() {
        for refusal in Refusal::ALL {
            let told = if refusal == Refusal::UnknownAuthority { Refusal::WrongGroup } else { refusal };
            assert_eq!(Refusal::from_alert(refusal.alert()), Some(told));
        }
        assert_eq!(Refusal::from_alert(AlertDescription::HandshakeFailure.into()), None);
    }

    #[test]
    fn alerts_are_the_standard_ones() {
        let alerts = Refusal::ALL.map(Refusal::alert);
        assert_eq!(alerts, [42, 48, 48, 45, 46, 44, 49]);
    }

    #[test]
    fn sentences_read_back() {
        for (side, refusal) in [Side::Local, Side::Remote].into_iter().flat_map(|side| Refusal::ALL.map(|r| (side, r)))
        {
            assert_eq!(Refusal::in_sentence(&side.sentence(refusal)), Some((side, refusal)));
        }
        assert_eq!(Refusal::in_sentence("the remote closed the connection"), None);
    }

    #[test]
    fn both_sides_read_well() {
        assert_eq!(
            Side::Remote.sentence(Refusal::Expired),
            "the remote refused our certificate because it has expired"
        );
        assert_eq!(
            Side::Local.sentence(Refusal::WrongRole),
            "we refused the remote's certificate because its role is not the one required"
        );
    }
}
