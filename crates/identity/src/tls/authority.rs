//! The connections between the authority's service and its callers.
//!
//! While the authority changes, a caller knows the former one or the new one. It names the one that it knows as the
//! server's name, and the service shows a certificate of that authority.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use roost_wire::RoleSet;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::crypto::verify_tls13_signature;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::{ALGORITHMS, CertificateResolver, ConfigError, Verifier, only_tls13, provider};
use crate::bundle::Identity;
use crate::certificate::Authority;
use crate::fingerprint::Fingerprint;
use crate::group::Group;
use crate::key_exchange::KeyExchange;
use crate::policy::Policy;
use crate::refusal::{Refusal, refusal_from_tls_error};

const HTTP: &[u8] = b"http/1.1";

/// The name in the certificate of the authority's service, which no member's certificate has.
pub const SERVICE_NAME: &str = "authority.roost";

/// The validity of the service's certificate. It is shorter than a day, so that clocks that are a day apart are noticed
/// on the device before it gets a certificate that ends too early.
const SERVICE_VALIDITY: Duration = Duration::from_secs(12 * 3600);

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
    let in_force = Arc::clone(group.trust().get().in_force());
    shown.current(&in_force).ok_or(rustls::Error::General("the group's key makes no certificate".into()))?;
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
    Ok(Arc::new(config))
}

/// The server's name by which a caller tells the service that it knows the authority with this fingerprint.
///
/// # Errors
/// None: the name is always well formed.
pub fn service_name(authority: Fingerprint) -> Result<ServerName<'static>, ConfigError> {
    let name = ServerName::try_from(name_of(authority));
    name.map_err(|_| rustls::Error::General("the service's name is malformed".into()).into())
}

fn name_of(authority: Fingerprint) -> String {
    format!("{}.{SERVICE_NAME}", authority.label())
}

/// Shows a certificate of the authority's service, which is made anew before it ends.
struct ServiceCertificate {
    group: Arc<Group>,
    clock: fn() -> SystemTime,
    /// By authority, with the times at which they were made.
    made: Mutex<Vec<(Fingerprint, SystemTime, Arc<CertifiedKey>)>>,
}

impl ServiceCertificate {
    fn current(&self, authority: &Arc<Authority>) -> Option<Arc<CertifiedKey>> {
        let now = (self.clock)();
        let mut current = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        current.retain(|(_, made, _)| now.duration_since(*made).is_ok_and(|age| age < SERVICE_VALIDITY / 2));
        if let Some((.., key)) = current.iter().find(|(of, ..)| *of == authority.fingerprint()) {
            return Some(Arc::clone(key));
        }
        let (chain, key) = self.group.service_certificate(authority, SERVICE_NAME, now, SERVICE_VALIDITY).ok()?;
        let key = any_supported_type(&PrivateKeyDer::Pkcs8(key.into())).ok()?;
        let made = Arc::new(CertifiedKey::new(chain.map(CertificateDer::from).to_vec(), key));
        current.push((authority.fingerprint(), now, Arc::clone(&made)));
        Some(made)
    }
}

impl fmt::Debug for ServiceCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceCertificate")
    }
}

impl ResolvesServerCert for ServiceCertificate {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let trust = self.group.trust().get();
        let is_known = |authority: &&Arc<Authority>| hello.server_name() == Some(&name_of(authority.fingerprint()));
        self.current(trust.trusted().find(is_known).unwrap_or(trust.in_force()))
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
