//! Why a certificate is refused, in words, codes, labels and TLS alerts.

use std::fmt;
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError, OtherError};

/// Why a certificate is refused.
///
/// `Display` gives the bare reason with "it" for the certificate, so that both
/// sides can put it in a sentence; [`Side::sentence`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// No certificate, or not one of the form that a group issues.
    Malformed = 1,
    /// Signed by an unknown authority, without the name of another group.
    UnknownAuthority = 2,
    /// Names another group.
    WrongGroup = 3,
    /// Its time is over.
    Expired = 4,
    /// Its time has not come.
    NotYetValid = 5,
    /// On the group's revocation list.
    Revoked = 6,
    /// Of the group, but with a role that does not fit the purpose.
    WrongRole = 7,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Malformed,
        Self::UnknownAuthority,
        Self::WrongGroup,
        Self::Expired,
        Self::NotYetValid,
        Self::Revoked,
        Self::WrongRole,
    ];

    /// The number that stands for it on the wire; never 0.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The refusal with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.code() == code)
    }

    /// The refusal's name in metrics.
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

    /// The TLS alert (RFC 8446, section 6) that tells the other side.
    pub fn alert(self) -> u8 {
        AlertDescription::from(self.certificate_error()).into()
    }

    /// What an alert from the other side says of our certificate; `None` if
    /// the alert is not about a certificate.
    ///
    /// `unknown_ca` reads as [`Refusal::WrongGroup`]: our certificate has a
    /// group, so a verifier that does not know our CA is of another one.
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

    /// Whether it concerns a member of the group, who is not admitted any more
    /// or not yet. Other refusals may come from whoever has taken over an address.
    pub const fn bars_member(self) -> bool {
        matches!(self, Self::Revoked | Self::Expired | Self::NotYetValid)
    }

    /// Whose refusal a sentence of [`Side::sentence`] speaks of: the one form
    /// in which the end of a connection tells it on every transport.
    pub fn in_sentence(text: &str) -> Option<(Side, Self)> {
        let sides = [Side::Local, Side::Remote].into_iter();
        let mut all = sides.flat_map(|side| Self::ALL.into_iter().map(move |refusal| (side, refusal)));
        all.find(|(side, refusal)| side.sentence(*refusal) == text)
    }

    /// The rustls error that makes rustls send the right alert.
    ///
    /// The choice of two is for the alert and for telling refusals apart on
    /// our side: `Other` is the only one sent as `certificate_unknown`, which
    /// keeps "not yet valid" distinct from "expired"; `UnknownRevocationStatus`
    /// is the only other one sent as `unknown_ca`.
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

/// Who refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// We refused the peer's certificate.
    Local,
    /// The peer refused ours.
    Remote,
}

impl Side {
    /// The refusal in one sentence without a full stop, for this side's log
    /// or error message.
    pub fn sentence(self, refusal: Refusal) -> String {
        match self {
            Self::Local => format!("we refused the remote's certificate because {refusal}"),
            Self::Remote => format!("the remote refused our certificate because {refusal}"),
        }
    }
}

/// What a failed TLS handshake says of a certificate, and who refused it;
/// `None` if it failed for another reason.
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
        assert_eq!(Refusal::in_sentence("the peer closed the connection"), None);
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
