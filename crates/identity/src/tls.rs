//! rustls configurations: TLS 1.3 and mutual certificates. The group's policy runs inside the verifiers, so that no
//! byte of data is accepted before it.
//!
//! Resumption is off on both sides: a resumed session would skip the policy and with it revocation.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roost_wire::RoleSet;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, PeerIncompatible, RootCertStore,
    ServerConfig, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};

use crate::bundle::Identity;
use crate::fingerprint::Fingerprint;
use crate::group::Group;
use crate::key_exchange::KeyExchange;
use crate::policy::Policy;
use crate::refusal::Refusal;
pub use crate::refusal::refusal_from_tls_error;

/// The protocol's name and version in the handshake.
pub const ALPN: &[u8] = b"roost/2";

const HTTP: &[u8] = b"http/1.1";

/// The name in the certificate of the authority's service, which no member's certificate has.
pub const SERVICE_NAME: &str = "authority.roost";

/// The validity of the service's certificate. It is shorter than a day, so that clocks that are a day apart are noticed
/// on the device before it gets a certificate that ends too early.
const SERVICE_VALIDITY: Duration = Duration::from_secs(12 * 3600);

/// ECDSA on P-256 and nothing else, as the CA makes no other keys.
static ALGORITHMS: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[webpki::aws_lc_rs::ECDSA_P256_SHA256],
    mapping: &[(SignatureScheme::ECDSA_NISTP256_SHA256, &[webpki::aws_lc_rs::ECDSA_P256_SHA256])],
};

/// The signatures that every verifier accepts: those of TLS 1.3 with the one algorithm.
macro_rules! accept_only_our_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(only_tls13())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls13_signature(message, cert, dss, &ALGORITHMS)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            ALGORITHMS.supported_schemes()
        }
    };
}

/// rustls does not accept the identity, so no configuration can be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("TLS does not accept our certificate and key: {0}")]
pub struct ConfigError(#[from] rustls::Error);

/// The one crypto provider: aws-lc-rs and TLS 1.3 suites. It is passed explicitly everywhere and never installed for the
/// process.
pub fn provider(key_exchange: KeyExchange) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: key_exchange.groups(),
        signature_verification_algorithms: ALGORITHMS,
        ..default_provider()
    })
}

/// The configuration of the listening side, which admits remotes with the roles in `admit`.
///
/// # Errors
/// rustls does not accept the identity.
pub fn server_config(
    identity: &Arc<Identity>,
    policy: &Arc<Policy>,
    admit: RoleSet,
    key_exchange: KeyExchange,
) -> Result<Arc<ServerConfig>, ConfigError> {
    let shown = CertificateResolver::new(identity)?;
    let mut config = ServerConfig::builder_with_provider(provider(key_exchange))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(Verifier::new(policy, admit)))
        .with_cert_resolver(shown);
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// The configuration of the dialing side, which expects remotes with the roles in `expect`. The server name given to a
/// connection is neither sent nor checked.
///
/// # Errors
/// rustls does not accept the identity.
pub fn client_config(
    identity: &Arc<Identity>,
    policy: &Arc<Policy>,
    expect: RoleSet,
    key_exchange: KeyExchange,
) -> Result<Arc<ClientConfig>, ConfigError> {
    let shown = CertificateResolver::new(identity)?;
    let mut config = ClientConfig::builder_with_provider(provider(key_exchange))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(policy, expect)))
        .with_client_cert_resolver(shown);
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// The configuration of the authority's service. It shows a certificate that the group's key makes for it, and admits
/// members with any role, and devices without a certificate, which may only ask to join. `clock` tells the validity of
/// that certificate.
///
/// # Errors
/// The group's key cannot make the service's certificate.
pub fn authority_server(
    group: &Arc<Group>,
    policy: &Arc<Policy>,
    clock: fn() -> SystemTime,
) -> Result<Arc<ServerConfig>, ConfigError> {
    let verifier = MemberOrDevice(Verifier::new(policy, RoleSet::ALL));
    let shown = ServiceCertificate { group: Arc::clone(group), clock, made: Mutex::default() };
    shown.current().ok_or(rustls::Error::General("the group's key makes no certificate".into()))?;
    let mut config = ServerConfig::builder_with_provider(provider(KeyExchange::Hybrid))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(shown));
    config.alpn_protocols = vec![HTTP.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// The configuration of a device or member that dials the authority whose certificate has this fingerprint. A member
/// shows its certificate.
///
/// # Errors
/// rustls does not accept the identity.
pub fn authority_client(
    authority: Fingerprint,
    member: Option<&Arc<Identity>>,
) -> Result<Arc<ClientConfig>, ConfigError> {
    let builder = ClientConfig::builder_with_provider(provider(KeyExchange::Hybrid))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedAuthority(authority)));
    let mut config = match member {
        Some(identity) => builder.with_client_cert_resolver(CertificateResolver::new(identity)?),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![HTTP.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// Shows a certificate of the authority's service, which is made anew before it ends.
struct ServiceCertificate {
    group: Arc<Group>,
    clock: fn() -> SystemTime,
    made: Mutex<Option<(SystemTime, Arc<CertifiedKey>)>>,
}

impl ServiceCertificate {
    fn current(&self) -> Option<Arc<CertifiedKey>> {
        let now = (self.clock)();
        let mut current = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |made: &SystemTime| now.duration_since(*made).is_ok_and(|age| age < SERVICE_VALIDITY / 2);
        if let Some((_, key)) = current.as_ref().filter(|(made, _)| is_fresh(made)) {
            return Some(Arc::clone(key));
        }
        let (chain, key) = self.group.service_certificate(SERVICE_NAME, now, SERVICE_VALIDITY).ok()?;
        let key = any_supported_type(&PrivateKeyDer::Pkcs8(key.into())).ok()?;
        let made = Arc::new(CertifiedKey::new(chain.map(CertificateDer::from).to_vec(), key));
        *current = Some((now, Arc::clone(&made)));
        Some(made)
    }
}

impl fmt::Debug for ServiceCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceCertificate")
    }
}

impl ResolvesServerCert for ServiceCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

/// Accepts a server whose chain ends with the one authority, and whose certificate that authority made for its service.
/// No member's certificate has the service's name.
#[derive(Debug)]
struct PinnedAuthority(Fingerprint);

impl ServerCertVerifier for PinnedAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let authority = match intermediates {
            [authority] if Fingerprint::digest(authority) == self.0 => authority,
            _ => return Err(CertificateError::UnknownIssuer.into()),
        };
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider(KeyExchange::Hybrid));
        let verifier = verifier.build().map_err(|_| CertificateError::UnknownIssuer)?;
        let name = ServerName::try_from(SERVICE_NAME).map_err(|_| CertificateError::NotValidForName)?;
        verifier.verify_server_cert(end_entity, &[], &name, ocsp_response, now)
    }

    accept_only_our_signatures!();
}

/// The reason for which no connection to the authority came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorityFault {
    /// The server is not the authority that was expected.
    OtherAuthority,
    /// By this host's clock the server's certificate has ended.
    Ended,
    /// By this host's clock the server's certificate is not valid yet.
    NotBegun,
    Refused(Refusal),
}

/// Finds the reason in an error, or in its sources.
pub fn authority_fault(error: &(dyn Error + 'static)) -> Option<AuthorityFault> {
    use CertificateError as E;
    match find_tls_error(error)? {
        rustls::Error::InvalidCertificate(E::Expired | E::ExpiredContext { .. }) => Some(AuthorityFault::Ended),
        rustls::Error::InvalidCertificate(E::NotValidYet | E::NotValidYetContext { .. }) => {
            Some(AuthorityFault::NotBegun)
        }
        rustls::Error::InvalidCertificate(_) => Some(AuthorityFault::OtherAuthority),
        other => refusal_from_tls_error(other).map(|(_, refusal)| AuthorityFault::Refused(refusal)),
    }
}

fn find_tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    error.downcast_ref().or_else(|| match inner {
        // The source of such an error is that of the error inside.
        Some(inner) => find_tls_error(inner),
        None => find_tls_error(error.source()?),
    })
}

/// Presents in each handshake the certificate in use at that moment, so that a renewal counts at once.
struct CertificateResolver {
    identity: Arc<Identity>,
    key: Arc<dyn SigningKey>,
}

impl CertificateResolver {
    fn new(identity: &Arc<Identity>) -> Result<Arc<Self>, ConfigError> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key_pkcs8_der().to_vec()));
        let this = Self { identity: Arc::clone(identity), key: any_supported_type(&key)? };
        this.now().keys_match()?;
        Ok(Arc::new(this))
    }

    fn now(&self) -> CertifiedKey {
        let chain = vec![CertificateDer::from(self.identity.certificate_der().to_vec())];
        CertifiedKey::new(chain, Arc::clone(&self.key))
    }
}

impl fmt::Debug for CertificateResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateResolver").field("identity", &self.identity).finish()
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::new(self.now()))
    }
}

impl ResolvesClientCert for CertificateResolver {
    fn resolve(&self, _root_hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::new(self.now()))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The group's policy behind the verifier traits of rustls, for either side.
struct Verifier {
    policy: Arc<Policy>,
    roles: RoleSet,
}

impl Verifier {
    fn new(policy: &Arc<Policy>, roles: RoleSet) -> Self {
        Self { policy: Arc::clone(policy), roles }
    }

    fn decide(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let now = UNIX_EPOCH + Duration::from_secs(now.as_secs());
        let verdict = if intermediates.is_empty() {
            self.policy.verify(leaf, self.roles, now).map(drop)
        } else {
            // A group has no intermediate authorities.
            Err(Refusal::Malformed)
        };
        verdict.map_err(|refusal| rustls::Error::InvalidCertificate(refusal.certificate_error()))
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("policy", &self.policy).field("roles", &self.roles).finish()
    }
}

/// Admits members as [`Verifier`] does, and whoever shows no certificate.
#[derive(Debug)]
struct MemberOrDevice(Verifier);

impl ClientCertVerifier for MemberOrDevice {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    accept_only_our_signatures!();
}

fn only_tls13() -> rustls::Error {
    PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into()
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.decide(end_entity, intermediates, now).map(|()| ServerCertVerified::assertion())
    }

    accept_only_our_signatures!();
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.decide(end_entity, intermediates, now).map(|()| ClientCertVerified::assertion())
    }

    accept_only_our_signatures!();
}
