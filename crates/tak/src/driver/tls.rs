//! TLS with a TAK server: the person's own authority, certificate and key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore};

#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub ca: PathBuf,
    /// The certificate that the gateway shows, and its key.
    pub own: Option<OwnFiles>,
}

#[derive(Clone, Debug)]
pub struct OwnFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone)]
pub struct TlsSetup(TlsConnector);

impl std::fmt::Debug for TlsSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsSetup")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(
        "cannot read {what} in {path}: {reason}; PEM is expected, and `openssl pkcs12 -in FILE.p12 -nodes` makes it of \
         TAK's files"
    )]
    File { what: &'static str, path: String, reason: String },
    #[error("the certificate and key do not fit: {0}")]
    Own(String),
}

impl TlsSetup {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the file that is wrong.
    pub fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates("an authority's certificate", &files.ca)? {
            let failed = |error: rustls::Error| wrong("an authority's certificate", &files.ca, error.to_string());
            roots.add(authority).map_err(failed)?;
        }
        let own_error = |error: rustls::Error| TlsError::Own(error.to_string());
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(own_error)?
            .with_root_certificates(roots);
        let config = match &files.own {
            Some(OwnFiles { cert, key }) => {
                let chain = certificates("a certificate", cert)?;
                let secret = PrivateKeyDer::from_pem_file(key);
                let secret = secret.map_err(|error| wrong("a key without a passphrase", key, error.to_string()))?;
                builder.with_client_auth_cert(chain, secret).map_err(own_error)?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error: rustls_pki_types::pem::Error| wrong(what, path, error.to_string());
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    if found.is_empty() { Err(wrong(what, path, "there is none".to_owned())) } else { Ok(found) }
}

fn wrong(what: &'static str, path: &Path, reason: String) -> TlsError {
    TlsError::File { what, path: path.display().to_string(), reason }
}

/// Makes a connection secret. The server has to prove that it has the name.
pub(super) async fn handshake(
    TlsSetup(connector): &TlsSetup,
    name: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, String> {
    let server = ServerName::try_from(name.to_owned()).map_err(|_| format!("{name:?} is no name of a server"))?;
    connector.connect(server, stream).await.map_err(|error| explain(&error, name))
}

fn explain(error: &std::io::Error, name: &str) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => format!("its certificate is not for {name}: say the name that it has, tls://HOST:PORT?name=NAME"),
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "its certificate is not signed by an authority of --ca".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_files_are_named() {
        let read = |ca: &str| {
            let error = TlsSetup::read(&TlsFiles { ca: ca.into(), own: None }).err();
            error.map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(read("/nowhere/ca.pem").starts_with("cannot read an authority's certificate in /nowhere/ca.pem: "));
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert!(read(manifest).contains("there is none; PEM is expected"), "{}", read(manifest));
    }
}
