//! The group's policy as a signed document in its folder. Here it is a text; rules are another crate's.

use roost_wire::messages::DocumentKind;

use super::index::Index;
use super::{Group, GroupError, GroupRecords, write};
use crate::document::SignedDocument;
use crate::error::{ListFault, LoadError};
use crate::files::{MAX_POLICY_FILE_BYTES, POLICY, read_optional, replace_public};

impl GroupRecords {
    /// The newest policy; `None` if there never was one. An empty text means that the group has none any more.
    ///
    /// # Errors
    /// The file cannot be read, the group's authority has not signed it, or it is not the newest one.
    pub fn policy_document(&self) -> Result<Option<SignedDocument>, GroupError> {
        let held = self.state(&mut self.index()?)?.0.policy_number;
        let document = self.signed_policy()?.map(|(document, _)| document);
        let offered = document.as_ref().map_or(0, |document| document.number);
        let fault = ListFault::Older { held, offered };
        if offered < held { Err(self.unusable_policy(fault)) } else { Ok(document) }
    }

    /// The number of the policy in the folder; 0 if there is none. The index need not be locked for it.
    ///
    /// # Errors
    /// The file cannot be read, or the group's authority has not signed it.
    pub fn policy_number(&self) -> Result<u64, GroupError> {
        Ok(self.signed_policy()?.map_or(0, |(document, _)| document.number))
    }

    /// The policy in the folder with its signed form. The index need not be locked for it.
    pub(super) fn signed_policy(&self) -> Result<Option<(SignedDocument, Vec<u8>)>, GroupError> {
        let Some(bytes) = read_optional(&self.dir.join(POLICY), MAX_POLICY_FILE_BYTES)? else { return Ok(None) };
        let document = SignedDocument::parse(&bytes, &self.trust.get()).map_err(|fault| self.unusable_policy(fault))?;
        let is_policy = document.kind == DocumentKind::POLICY.0;
        if is_policy { Ok(Some((document, bytes))) } else { Err(self.unusable_policy(ListFault::Malformed)) }
    }

    fn unusable_policy(&self, fault: ListFault) -> GroupError {
        LoadError::Policy { path: self.dir.join(POLICY), fault }.into()
    }
}

impl Group {
    /// Signs this text as the group's next policy. Returns it with its signed form.
    ///
    /// # Errors
    /// The text is too long, or the folder cannot be written.
    pub fn sign_policy(&self, text: &str) -> Result<(SignedDocument, Vec<u8>), GroupError> {
        self.sign_next_policy(&mut self.index()?, text.into())
    }

    /// Signs the policy that there is, if any, with the key in force, as the next one.
    pub(super) fn sign_policy_again(&self, index: &mut Index) -> Result<(), GroupError> {
        let held = self.signed_policy()?.map(|(held, _)| held);
        let (listed, offered) = (self.state(index)?.0.policy_number, held.as_ref().map_or(0, |held| held.number));
        if offered < listed {
            return Err(self.unusable_policy(ListFault::Older { held: listed, offered }));
        }
        let Some(held) = held else { return Ok(()) };
        self.sign_next_policy(index, held.content).map(|_| ())
    }

    fn sign_next_policy(&self, index: &mut Index, content: Vec<u8>) -> Result<(SignedDocument, Vec<u8>), GroupError> {
        let held = self.signed_policy().ok().flatten().map_or(0, |(held, _)| held.number);
        let number = self.trust.get().next_number(held.max(self.state(index)?.0.policy_number));
        let document = SignedDocument { kind: DocumentKind::POLICY.0, number, content };
        let bytes = self.sign_document(&document)?;
        let path = self.dir.join(POLICY);
        if bytes.len() as u64 > MAX_POLICY_FILE_BYTES {
            return Err(LoadError::TooLarge { path, limit: MAX_POLICY_FILE_BYTES }.into());
        }
        write(&path, |path| replace_public(path, &bytes))?;
        let listed = index.add_policy(number);
        listed.map_err(|source| GroupError::Index { path: index.path().to_owned(), source })?;
        Ok((document, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::POLICY as KIND;

    #[test]
    fn each_policy_has_the_next_number() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("group");
        let group = Group::init(&folder, "alpha").unwrap();
        assert_eq!(group.policy_document().unwrap(), None);
        let (first, bytes) = group.sign_policy("[[rule]]").unwrap();
        assert_eq!((first.number, first.content.as_slice()), (1, b"[[rule]]".as_slice()));
        assert_eq!(group.policy().unwrap().open_document(&bytes).unwrap(), first);
        let (second, _) = group.sign_policy("").unwrap();
        assert_eq!((second.number, group.policy_document().unwrap()), (2, Some(second.clone())));
        let told = group.documents().unwrap();
        assert_eq!(
            told.iter().map(|one| (one.kind.as_str(), one.number)).collect::<Vec<_>>(),
            [("revocations", 1), (KIND, 2)]
        );
        std::fs::write(folder.join(POLICY), bytes).unwrap();
        let error = group.policy_document().unwrap_err().to_string();
        assert!(error.contains("number 1, older than number 2"), "{error}");
        assert_eq!(group.sign_policy("").unwrap().0.number, 3);
    }
}
