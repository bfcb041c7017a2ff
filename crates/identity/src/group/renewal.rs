//! Renewal: a new certificate for the key that a member has.

use std::path::Path;

use rcgen::SubjectPublicKeyInfo;
use rustls_pki_types::CertificateDer;

use super::{Group, GroupError, Issued, Validity, write};
use crate::certificate::Certificate;
use crate::files::{LEAF_CERTIFICATE, MAX_PEM_BYTES, REVOCATION_LIST, read_pem, replace_public};
use crate::policy::member;
use crate::refusal::Refusal;

impl Group {
    /// Issues a certificate for the key, name and role of the one in `bundle` and replaces it there, together with the
    /// revocation list. The member keeps its id. Its daemon loads the certificate on SIGHUP. The private key need not
    /// be in `bundle`.
    ///
    /// # Errors
    /// The certificate is not of this group or is revoked, or the files cannot be read or written.
    pub fn renew(&self, bundle: &Path, validity: Validity) -> Result<Issued, GroupError> {
        let path = bundle.join(LEAF_CERTIFICATE);
        let old: CertificateDer<'_> = read_pem(&path, MAX_PEM_BYTES, "certificate")?;
        let refused = |refusal| GroupError::NotRenewable { path: path.clone(), refusal };
        let leaf = member(&old, self.signer.authority()).map_err(refused)?;
        let mut index = self.index()?;
        let (_, list) = self.state(&mut index)?;
        if list.contains(&leaf.status.serial) {
            return Err(refused(Refusal::Revoked));
        }
        let parsed = Certificate::parse(&old).ok_or(refused(Refusal::Malformed))?;
        let key = SubjectPublicKeyInfo::from_der(parsed.key())?;
        let (not_before, not_after) = self.period(validity)?;
        let made = self.signer.certify(&key, &leaf.subject, not_before, not_after)?;
        let fresh = Certificate::parse(made.der()).and_then(|certificate| certificate.leaf());
        let issued = Issued::new(&fresh.ok_or(GroupError::Crypto(rcgen::Error::CouldNotParseCertificate))?);
        let listed = index.add_issued(&issued);
        listed.map_err(|source| GroupError::Index { path: index.path().to_owned(), source })?;
        let newest = self.newest_list_text(&mut index)?;
        write(&bundle.join(REVOCATION_LIST), |path| replace_public(path, &newest))?;
        write(&path, |path| replace_public(path, &made.pem()))?;
        Ok(issued)
    }
}
