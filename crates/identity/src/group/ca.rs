//! The signing side of the CA: makes certificates and revocation lists.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, CustomExtension,
    DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, RevokedCertParams, SanType, SerialNumber, SigningKey, date_time_ymd,
};
use roost_geo::Datum;

use crate::certificate::{Authority, DATUM_OID, LABELS_OID, Serial, datum_extension, labels_extension};
use crate::subject::Subject;

/// The validity of a new CA certificate: ten years. Its end is the end of the group, since no certificate outlives the
/// CA.
pub(crate) const CA_VALIDITY: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// Bytes of a serial number. It is random, so that two copies of a group directory that both issue certificates do not
/// use a number twice.
const SERIAL_BYTES: usize = 16;

/// The CA's key, with the name under which it signs.
pub(crate) struct Signer {
    issuer: Issuer<'static, KeyPair>,
    authority: Arc<Authority>,
}

/// A certificate that was just made, with its key.
pub(crate) struct Made {
    pub(crate) certificate: Certificate,
    pub(crate) key: KeyPair,
}

impl Signer {
    /// Makes the certificate and the key of a group's CA. The certificate has the datum, so that all members have it
    /// from whatever brought them the authority.
    pub(crate) fn generate(
        group: &str,
        datum: Option<&Datum>,
        not_before: SystemTime,
        not_after: SystemTime,
    ) -> Result<Made, rcgen::Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = params(group, not_before, not_after)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let datum = datum.and_then(datum_extension);
        params.custom_extensions.extend(datum.map(|datum| CustomExtension::from_oid_content(DATUM_OID, datum)));
        Ok(Made { certificate: params.self_signed(&key)?, key })
    }

    /// Makes the signer with this key. `None` if the key does not belong to the authority.
    pub(crate) fn new(authority: Arc<Authority>, pkcs8: &[u8]) -> Result<Option<Self>, rcgen::Error> {
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8.into(), &PKCS_ECDSA_P256_SHA256)?;
        if key.subject_public_key_info() != authority.spki() {
            return Ok(None);
        }
        let issuer = Issuer::from_ca_cert_der(&authority.der().into(), key)?;
        Ok(Some(Self { issuer, authority }))
    }

    pub(crate) fn authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    /// Makes a certificate for a new key of a member.
    pub(crate) fn issue(
        &self,
        subject: &Subject,
        not_before: SystemTime,
        not_after: SystemTime,
    ) -> Result<Made, rcgen::Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        Ok(Made { certificate: self.certify(&key, subject, not_before, not_after)?, key })
    }

    /// Makes a further certificate for the key that a member has.
    pub(crate) fn certify(
        &self,
        key: &impl PublicKeyData,
        subject: &Subject,
        not_before: SystemTime,
        not_after: SystemTime,
    ) -> Result<Certificate, rcgen::Error> {
        let mut params = params(&subject.name, not_before, not_after)?;
        params.subject_alt_names = vec![SanType::URI(subject.to_string().try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let labels = labels_extension(&subject.labels);
        params.custom_extensions.extend(labels.map(|labels| CustomExtension::from_oid_content(LABELS_OID, labels)));
        params.signed_by(key, &self.issuer)
    }

    /// Makes a certificate for a new key of the authority's service, which is not a member.
    pub(crate) fn certify_service(
        &self,
        name: &str,
        not_before: SystemTime,
        not_after: SystemTime,
    ) -> Result<Made, rcgen::Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = params(name, not_before, not_after)?;
        params.subject_alt_names = vec![SanType::DnsName(name.try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        Ok(Made { certificate: params.signed_by(&key, &self.issuer)?, key })
    }

    /// ECDSA with SHA-256 over a message, in DER.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.issuer.key().sign(message)
    }

    /// Signs a revocation list and returns it as PEM. The list expires with the CA: its number, not its age, decides
    /// which of two lists is in force.
    pub(crate) fn sign_list<'a>(
        &self,
        number: u64,
        now: SystemTime,
        revoked: impl Iterator<Item = (&'a Serial, SystemTime)>,
    ) -> Result<String, rcgen::Error> {
        let date_time = |at| date_time_ymd(1970, 1, 1) + since_epoch(at);
        let entry = |(serial, at): (&Serial, _)| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial.as_bytes()),
            revocation_time: date_time(at),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time(now),
            next_update: date_time(self.authority.not_after()),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked.map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer)?.pem()
    }
}

fn params(name: &str, not_before: SystemTime, not_after: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let date_time = |at| date_time_ymd(1970, 1, 1) + since_epoch(at);
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time(not_before);
    params.not_after = date_time(not_after);
    params.serial_number = Some(random_serial()?);
    Ok(params)
}

/// A positive number of full length: the first bit is clear and the second is set.
fn random_serial() -> Result<SerialNumber, rcgen::Error> {
    let mut bytes = [0; SERIAL_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| rcgen::Error::RingUnspecified)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

fn since_epoch(time: SystemTime) -> Duration {
    Duration::from_secs(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}
