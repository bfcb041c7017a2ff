//! Renewal: a new certificate for the key that a member has.

use std::path::Path;
use std::time::SystemTime;

use rustls_pki_types::CertificateDer;

use super::revocation::is_long_over;
use super::{Group, GroupError, Issued, Validity, write};
use crate::certificate::Certificate;
use crate::files::{LEAF_CERTIFICATE, MAX_PEM_BYTES, POLICY, REVOCATION_LIST, read_pem, replace_public};
use crate::policy::member;
use crate::refusal::Refusal;

impl Group {
    /// Issues a certificate for the key, name and role of the one in `bundle` and replaces it there, together with the
    /// revocation list. The member keeps its id. Its daemon loads the certificate on SIGHUP. The private key need not
    /// be in `bundle`.
    ///
    /// # Errors
    /// The certificate is not of this group, is revoked or ended more than 30 days ago, or the files cannot be read or written.
    pub fn renew(&self, bundle: &Path, validity: Validity) -> Result<Issued, GroupError> {
        let path = bundle.join(LEAF_CERTIFICATE);
        let old: CertificateDer<'_> = read_pem(&path, MAX_PEM_BYTES, "certificate")?;
        let refused = |refusal| GroupError::NotRenewable { path: path.clone(), refusal };
        let mut index = self.index()?;
        let leaf = member(&old, &self.trust.get()).map_err(refused)?;
        let (entries, list) = self.state(&mut index)?;
        if list.contains(&leaf.status.serial) {
            return Err(refused(Refusal::Revoked));
        }
        // The list does not tell of such a certificate any more if it was revoked.
        if is_long_over(leaf.status.not_after, SystemTime::now()) {
            return Err(refused(Refusal::Expired));
        }
        let parsed = Certificate::parse(&old).ok_or(refused(Refusal::Malformed))?;
        let (certificate, issued) = self.certify(parsed.key(), &entries.renewed(&leaf), validity, &mut index)?;
        let newest = self.newest_list_text(&mut index)?;
        self.write_trust(bundle)?;
        write(&bundle.join(REVOCATION_LIST), |path| replace_public(path, &newest))?;
        if let Some((_, policy)) = self.signed_policy()? {
            write(&bundle.join(POLICY), |path| replace_public(path, policy))?;
        }
        write(&path, |path| replace_public(path, &certificate))?;
        Ok(issued)
    }
}
