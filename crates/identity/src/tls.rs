//! rustls configurations: TLS 1.3 and mutual certificates. The group's policy runs inside the verifiers, so that no
//! byte of data is accepted before it.
//!
//! Resumption is off on both sides: a resumed session would skip the policy and with it revocation.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use roost_wire::RoleSet;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, DistinguishedName, PeerIncompatible, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};

use crate::bundle::Identity;
use crate::key_exchange::KeyExchange;
use crate::policy::Policy;
use crate::refusal::Refusal;
pub use crate::refusal::refusal_from_tls_error;

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

mod authority;

pub use self::authority::{
    AuthorityFault, SERVICE_NAME, authority_client, authority_fault, authority_server, service_name,
};

/// The protocol's name and version in the handshake.
pub const ALPN: &[u8] = b"roost/2";

/// ECDSA on P-256 and nothing else, as the CA makes no other keys.
static ALGORITHMS: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[webpki::aws_lc_rs::ECDSA_P256_SHA256],
    mapping: &[(SignatureScheme::ECDSA_NISTP256_SHA256, &[webpki::aws_lc_rs::ECDSA_P256_SHA256])],
};

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

/// The configuration of a page for browsers, which show no certificate of the group.
///
/// # Errors
/// rustls does not accept the identity.
pub fn page_server(identity: &Arc<Identity>) -> Result<Arc<ServerConfig>, ConfigError> {
    let shown = CertificateResolver::new(identity)?;
    let mut config = ServerConfig::builder_with_provider(provider(KeyExchange::default()))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(shown);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
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
