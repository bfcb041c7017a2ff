//! Reads certificates: strict DER, one signature algorithm, one profile.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ParsedPublicKey};
use data_encoding::BASE64;
use roost_geo::Datum;
use roost_wire::{Labels, NodeId, RemoteIdentity};
use sha2::{Digest, Sha256};
use x509_parser::asn1_rs::{ToDer, Utf8String};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Version};
use x509_parser::time::ASN1Time;

use crate::fingerprint::Fingerprint;
use crate::refusal::Refusal;
use crate::subject::{Subject, check_name};

/// The largest certificate that is parsed, in bytes. Those of a group have about 450, and 560 more for the longest labels.
pub(crate) const MAX_CERTIFICATE_BYTES: usize = 4096;

/// AlgorithmIdentifier of ecdsa-with-SHA256 (RFC 5758, section 3.2), DER.
const ECDSA_SHA256: [u8; 12] = [0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

/// The extension with a member's labels, a UTF8String such as `role=scout,team=red`. The arc 2.25 needs no
/// registration (ITU-T X.667); the number was drawn at random. It has 31 bits, since the parser of the DTLS library reads
/// no greater one than 32.
pub(crate) const LABELS_OID: &[u64] = &[2, 25, 1_370_264_823];

/// The extension of an authority's certificate with the group's datum, a UTF8String such as `47.37,8.54 1km`.
pub(crate) const DATUM_OID: &[u64] = &[2, 25, 1_093_518_226];

/// The first bytes of the SubjectPublicKeyInfo of an uncompressed P-256 key (RFC 5480).
const P256_PREFIX: [u8; 27] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
];

/// Length of the whole SubjectPublicKeyInfo, in bytes.
const P256_SPKI_BYTES: usize = P256_PREFIX.len() + 64;

/// Reads the holder of `leaf_der` **without any verification**. Use it only for a certificate that [`crate::Policy`]
/// has accepted, such as the one that a finished handshake reports.
///
/// # Errors
/// [`Refusal::Malformed`] if a group would not issue such a certificate.
pub fn read_unverified(leaf_der: &[u8]) -> Result<RemoteIdentity, Refusal> {
    let leaf = Certificate::parse(leaf_der).and_then(|certificate| certificate.leaf());
    leaf.map(|leaf| leaf.identity()).ok_or(Refusal::Malformed)
}

/// A well-formed certificate. Nothing says that its signature is right.
pub(crate) struct Certificate<'a> {
    der: &'a [u8],
    x509: X509Certificate<'a>,
}

impl<'a> Certificate<'a> {
    pub(crate) fn parse(der: &'a [u8]) -> Option<Self> {
        if der.len() > MAX_CERTIFICATE_BYTES {
            return None;
        }
        let (rest, x509) = X509Certificate::from_der(der).ok()?;
        rest.is_empty().then_some(Self { der, x509 })
    }

    pub(crate) fn is_signed_by(&self, authority: &Authority) -> bool {
        authority.signed(self.der, self.x509.tbs_certificate.as_ref(), &self.x509.signature_value.data)
    }

    /// True if the certificate's public key is this uncompressed P-256 point.
    pub(crate) fn has_key(&self, point: &[u8]) -> bool {
        p256_point(self.key()) == Some(point)
    }

    /// The holder, if there is exactly one subject alternative name and it has the form of [`Subject`].
    pub(crate) fn subject(&self) -> Option<Subject> {
        let names = self.x509.subject_alternative_name().ok().flatten()?;
        match names.value.general_names.as_slice() {
            [GeneralName::URI(uri)] => Subject::parse(uri),
            _ => None,
        }
    }

    /// The labels of the holder, none without their extension. `None` if a group would not write such an extension.
    fn labels(&self) -> Option<Labels> {
        let Some((text, value)) = self.text_extension(LABELS_OID)? else { return Some(Labels::default()) };
        let labels: Labels = text.parse().ok()?;
        // The comparison with the only right encoding rejects other orders and no labels at all, too.
        (labels_extension(&labels)? == value).then_some(labels)
    }

    /// The datum of the group, none without its extension. `None` if a group would not write such an extension.
    fn datum(&self) -> Option<Option<Datum>> {
        let Some((text, value)) = self.text_extension(DATUM_OID)? else { return Some(None) };
        let (origin, cell) = text.split_once(' ')?;
        let datum = Datum::new(origin.parse().ok()?, cell.parse().ok()?).ok()?;
        (datum_extension(&datum)? == value).then_some(Some(datum))
    }

    /// The text of an extension of ours with its encoding; `None` if there are several, or it is no text.
    fn text_extension(&self, oid: &[u64]) -> Option<Option<(String, &[u8])>> {
        let is_ours = |arcs: &mut dyn Iterator<Item = u64>| arcs.eq(oid.iter().copied());
        let extensions = self.x509.extensions().iter();
        let mut ours = extensions.filter(|extension| extension.oid.iter().is_some_and(|mut arcs| is_ours(&mut arcs)));
        let Some(extension) = ours.next() else { return Some(None) };
        let (_, text) = Utf8String::from_der(extension.value).ok()?;
        ours.next().is_none().then(|| Some((text.string(), extension.value)))
    }

    /// The SubjectPublicKeyInfo, DER, of whatever type the key is.
    pub(crate) fn key(&self) -> &[u8] {
        self.x509.tbs_certificate.subject_pki.raw
    }

    /// Reads the certificate as a leaf of a group. `None` if it breaks the profile: version 3, P-256, not a CA, for
    /// both ends of TLS, and no critical extension besides those that are checked here.
    pub(crate) fn leaf(&self) -> Option<Leaf> {
        let x509 = &self.x509;
        let spki = p256_spki(x509)?;
        let purposes = x509.extended_key_usage().ok().flatten()?.value;
        let is_ca = x509.basic_constraints().ok()?.is_some_and(|extension| extension.value.ca);
        let may_sign = x509.key_usage().ok()?.is_none_or(|extension| extension.value.digital_signature());
        let fits = purposes.client_auth && purposes.server_auth && !is_ca && may_sign;
        if x509.version() != X509Version::V3 || !fits || has_unknown_critical_extension(x509) {
            return None;
        }
        Some(Leaf {
            node: node_id(spki),
            subject: Subject { labels: self.labels()?, ..self.subject()? },
            status: CertificateStatus {
                serial: Serial::from_raw(x509.raw_serial()),
                issuer: None,
                not_before: system_time(x509.validity().not_before)?,
                not_after: system_time(x509.validity().not_after)?,
            },
        })
    }
}

/// The content of the extension with a member's labels, DER; `None` if there are none.
pub(crate) fn labels_extension(labels: &Labels) -> Option<Vec<u8>> {
    let text = labels.to_string();
    Utf8String::new(&text).to_der_vec().ok().filter(|_| !labels.is_empty())
}

/// The content of the extension with a group's datum, DER.
pub(crate) fn datum_extension(datum: &Datum) -> Option<Vec<u8>> {
    Utf8String::new(&format!("{} {}", datum.origin(), datum.cell_size())).to_der_vec().ok()
}

fn p256_spki<'a>(x509: &X509Certificate<'a>) -> Option<&'a [u8]> {
    let spki = x509.tbs_certificate.subject_pki.raw;
    p256_point(spki).map(|_| spki)
}

/// The uncompressed point in a SubjectPublicKeyInfo of a P-256 key.
pub(crate) fn p256_point(spki: &[u8]) -> Option<&[u8]> {
    let is_p256 = spki.len() == P256_SPKI_BYTES && spki.starts_with(&P256_PREFIX);
    is_p256.then(|| &spki[P256_PREFIX.len() - 1..])
}

/// True if `der` is `body` with the signature of the holder of the key `point`, in DER.
pub(crate) fn is_self_signed(der: &[u8], body: &[u8], signature: &[u8], point: &[u8]) -> bool {
    let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
    is_envelope(der, body, signature) && key.is_ok_and(|key| key.verify_sig(body, signature).is_ok())
}

fn has_unknown_critical_extension(x509: &X509Certificate<'_>) -> bool {
    use x509_parser::prelude::ParsedExtension as E;
    x509.extensions().iter().any(|extension| {
        let known = matches!(
            extension.parsed_extension(),
            E::SubjectAlternativeName(_) | E::BasicConstraints(_) | E::KeyUsage(_) | E::ExtendedKeyUsage(_)
        );
        extension.critical && !known
    })
}

/// The node id of the holder of a public key: the first half of the SHA-256
/// digest of its DER SubjectPublicKeyInfo.
pub(crate) fn node_id(spki_der: &[u8]) -> NodeId {
    let mut id = [0; 16];
    id.copy_from_slice(&Sha256::digest(spki_der)[..16]);
    NodeId::from_bytes(id)
}

/// `None` for times before 1970, which no group issues.
pub(crate) fn system_time(time: ASN1Time) -> Option<SystemTime> {
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).ok()?))
}

/// Writes a time for people to read.
pub(crate) fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let date = i64::try_from(seconds).ok().and_then(|seconds| ASN1Time::from_timestamp(seconds).ok());
    date.map_or_else(|| format!("second {seconds} of the Unix epoch"), |date| date.to_string())
}

/// The contents of a member's certificate that the product uses.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) node: NodeId,
    pub(crate) subject: Subject,
    pub(crate) status: CertificateStatus,
}

/// The parts of a member's certificate that can bar the member after it was admitted: the serial number, which may be
/// revoked, its authority, which the group may not trust any more, and the validity. [`crate::Policy::recheck`] judges
/// it.
#[derive(Clone, Debug)]
pub struct CertificateStatus {
    pub(crate) serial: Serial,
    /// `None` until a signature is verified.
    pub(crate) issuer: Option<Fingerprint>,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

impl Leaf {
    pub(crate) fn identity(&self) -> RemoteIdentity {
        RemoteIdentity {
            node: self.node,
            role: self.subject.role,
            name: self.subject.name.clone(),
            labels: self.subject.labels.clone(),
        }
    }
}

impl CertificateStatus {
    pub const fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// Both the first and the last second belong to the validity (RFC 5280, section 4.1.2.5).
    pub(crate) fn check_time(&self, now: SystemTime) -> Result<(), Refusal> {
        // Certificates count whole seconds, so the last one lasts until the next begins.
        if now >= self.not_after + Duration::from_secs(1) {
            Err(Refusal::Expired)
        } else if now < self.not_before {
            Err(Refusal::NotYetValid)
        } else {
            Ok(())
        }
    }
}

/// A certificate's serial number: its big-endian bytes without leading zeros.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Serial(Box<[u8]>);

impl Serial {
    pub(crate) fn from_raw(bytes: &[u8]) -> Self {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Self(bytes[zeros..].into())
    }

    /// Parses the hexadecimal digits that [`Serial`] displays.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let digit = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digit).collect();
        bytes.map(|bytes| Self::from_raw(&bytes))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A group's CA, as far as verification needs it.
pub(crate) struct Authority {
    der: Vec<u8>,
    fingerprint: Fingerprint,
    group: String,
    key: ParsedPublicKey,
    spki: Vec<u8>,
    not_after: SystemTime,
    datum: Option<Datum>,
}

impl Authority {
    /// Parses a CA certificate and checks that it signed itself. `Err` says what is wrong, as the end of a sentence.
    pub(crate) fn parse(der: &[u8]) -> Result<Self, &'static str> {
        let certificate = Certificate::parse(der).ok_or("it is not a certificate")?;
        let x509 = &certificate.x509;
        let is_ca = matches!(x509.basic_constraints(), Ok(Some(extension)) if extension.value.ca);
        if !is_ca {
            return Err("it is not a certificate of an authority");
        }
        let spki = p256_spki(x509).ok_or("its key is not of type ECDSA P-256")?;
        let group = x509.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        let group = group.filter(|name| check_name(name).is_ok()).ok_or("it names no group")?;
        let point = p256_point(spki).unwrap_or_default();
        let authority = Self {
            der: der.to_vec(),
            fingerprint: Fingerprint::digest(der),
            group: group.to_owned(),
            key: ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).map_err(|_| "its key is not on the curve")?,
            spki: spki.to_vec(),
            not_after: system_time(x509.validity().not_after).ok_or("its validity is out of range")?,
            datum: certificate.datum().ok_or("its datum cannot be read")?,
        };
        if certificate.is_signed_by(&authority) { Ok(authority) } else { Err("its own signature is wrong") }
    }

    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    pub(crate) fn pem(&self) -> String {
        pem(&self.der)
    }

    pub(crate) const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    pub(crate) fn spki(&self) -> &[u8] {
        &self.spki
    }

    pub(crate) fn not_after(&self) -> SystemTime {
        self.not_after
    }

    pub(crate) const fn datum(&self) -> Option<&Datum> {
        self.datum.as_ref()
    }

    /// True if the signature over a message, ECDSA in DER, is this authority's.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        self.key.verify_sig(message, signature).is_ok()
    }

    /// True if `der` is exactly what this authority signed: `body`, the one algorithm and a good signature, in their
    /// only DER encoding.
    pub(crate) fn signed(&self, der: &[u8], body: &[u8], signature: &[u8]) -> bool {
        is_envelope(der, body, signature) && self.has_signed(body, signature)
    }
}

impl PartialEq for Authority {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

/// A certificate in PEM form (RFC 7468).
pub(crate) fn pem(der: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in BASE64.encode(der).as_bytes().chunks(64) {
        text.extend(line.iter().copied().map(char::from).chain(['\n']));
    }
    text + "-----END CERTIFICATE-----\n"
}

/// True if `der` is SEQUENCE { body, ecdsa-with-SHA256, BIT STRING signature } byte for byte. Parsers accept some
/// encodings that DER forbids outside the signed part. The comparison with the only right encoding rejects them all.
fn is_envelope(der: &[u8], body: &[u8], signature: &[u8]) -> bool {
    // A P-256 signature takes at most 72 bytes, so the short form of a length fits.
    let Some(bits @ ..=127) = u8::try_from(signature.len()).ok().and_then(|len| len.checked_add(1)) else {
        return false;
    };
    let content = body.len() + ECDSA_SHA256.len() + 2 + usize::from(bits);
    let mut expected = Vec::with_capacity(content + 6);
    expected.push(0x30);
    let length = (content as u64).to_be_bytes();
    let length = &length[length.iter().take_while(|byte| **byte == 0).count().min(7)..];
    if content > 127 {
        expected.push(0x80 | length.len() as u8);
    }
    expected.extend_from_slice(length);
    expected.extend_from_slice(body);
    expected.extend_from_slice(&ECDSA_SHA256);
    expected.extend_from_slice(&[0x03, bits, 0x00]);
    expected.extend_from_slice(signature);
    expected == der
}
