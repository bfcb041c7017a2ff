//! Small files that are sealed for receivers which are away, and the certificates for whose keys they are sealed.
//!
//! The certificate of a node is kept in `certificates/ID.der` when the node connects. It is the authority's word, which
//! is verified again each time that a file is sealed; no hub is asked.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use roost_core::node::NodeCommand;
use roost_identity::{FileContent, read_unverified};
use roost_wire::messages::MAX_MAILBOX_FILE_BYTES;
use roost_wire::object::digest_text;
use roost_wire::{DeliveryId, NodeId, NodeSelector};
use sha2::{Digest, Sha256};

use super::Outbox;
use super::store::StoredDelivery;
use crate::node::NodeService;

/// The most certificates that are kept; the oldest go first.
const MAX_CERTIFICATES: usize = 1_024;

/// Longest certificate, bytes: longer ones are refused by every handshake.
const MAX_CERTIFICATE_BYTES: u64 = 4_096;

/// Seals a file for the home to keep, and tells the machine.
pub(super) async fn leave(node: NodeService, outbox: Arc<Outbox>, id: DeliveryId, tries: u32, left: Duration) {
    let sealing = (node.clone(), outbox);
    let sealed = tokio::task::spawn_blocking(move || seal(&sealing.0, &sealing.1, id, tries, left));
    let sealed = sealed.await.map_err(|error| error.to_string()).and_then(|sealed| sealed);
    // The machine is gone when the daemon ends.
    let _ = node.mailbox.command(NodeCommand::SealedForHome { id, sealed }).await;
}

fn seal(
    node: &NodeService,
    outbox: &Outbox,
    id: DeliveryId,
    tries: u32,
    left: Duration,
) -> Result<(NodeId, Bytes), String> {
    let gone = || "the file is no longer in the outbox".to_owned();
    let delivery = outbox.store.get(id).ok_or_else(gone)?;
    if delivery.bytes > MAX_MAILBOX_FILE_BYTES as u64 {
        return Err("it is larger than 60 KiB".to_owned());
    }
    let selector: NodeSelector = delivery.to.parse().map_err(|_| gone())?;
    let certificate = certificate_for(outbox, selector, delivery.node)?;
    let bytes = fs::read(outbox.store.data_path(id)).map_err(|error| error.to_string())?;
    if digest_text(&Sha256::digest(&bytes).into()) != delivery.sha256 {
        return Err("its data in the outbox is not what was put there".to_owned());
    }
    let file = FileContent { name: delivery.name.clone(), until_s: delivery.until_s, bytes };
    let (ends, sealed) = node.shared.seal_file(&certificate, id, &file).map_err(|error| error.to_string())?;
    // On disk before the home has it, else a crash hides that the receiver may get it.
    let noted = outbox.store.noted(StoredDelivery { node: Some(ends.to), tries, ..delivery }, left);
    outbox.store.write(id, noted).map_err(|error| format!("the outbox cannot be written to: {error}"))?;
    Ok((ends.to, sealed.into()))
}

/// The certificate of the one node that is meant; of a file that was offered, of the node that was.
fn certificate_for(outbox: &Outbox, to: NodeSelector, offered: Option<NodeId>) -> Result<Vec<u8>, String> {
    let is_meant = |certificate: &Vec<u8>| {
        let Ok(holder) = read_unverified(certificate) else { return false };
        offered.map_or_else(|| to.matches(holder.node, Some(&holder.name)), |node| node == holder.node)
    };
    let mut meant = kept(outbox).into_iter().filter_map(|(_, path)| fs::read(path).ok()).filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(certificate), None) => Ok(certificate),
        (Some(_), Some(_)) => Err("two nodes have the name: give the id instead".to_owned()),
        (None, _) => Err("this node has not met the receiver yet, and has no key of it".to_owned()),
    }
}

/// A node is connected: keeps its certificate.
pub(super) async fn keep_certificate(node: &NodeService, outbox: &Arc<Outbox>, met: NodeId) {
    let Some(certificate) = node.shared.certificate_of(met) else { return };
    let outbox = Arc::clone(outbox);
    let kept = tokio::task::spawn_blocking(move || write(&outbox, met, &certificate)).await;
    if let Err(error) = kept.map_err(io::Error::other).and_then(|kept| kept) {
        tracing::warn!(%error, "the certificate of a node cannot be kept; no file is left at a hub for it");
    }
}

fn write(outbox: &Outbox, of: NodeId, certificate: &[u8]) -> io::Result<()> {
    let folder = folder(outbox);
    let (path, new) = (folder.join(format!("{of}.der")), folder.join(format!("{of}.new")));
    if fs::read(&path).is_ok_and(|kept| kept == certificate) {
        return Ok(());
    }
    fs::create_dir_all(&folder)?;
    fs::write(&new, certificate)?;
    fs::rename(&new, &path)?;
    let mut all = kept(outbox);
    all.sort_unstable();
    let excess = all.len().saturating_sub(MAX_CERTIFICATES);
    all.iter().take(excess).try_for_each(|(_, path)| fs::remove_file(path))
}

fn folder(outbox: &Outbox) -> PathBuf {
    outbox.store.folder().join("certificates")
}

/// The files of the kept certificates, with the time of each.
fn kept(outbox: &Outbox) -> Vec<(SystemTime, PathBuf)> {
    let entries = fs::read_dir(folder(outbox)).into_iter().flatten().flatten();
    let certificate = |entry: fs::DirEntry| {
        let (path, metadata) = (entry.path(), entry.metadata().ok()?);
        let is_one = path.extension().is_some_and(|end| end == "der") && metadata.len() <= MAX_CERTIFICATE_BYTES;
        Some((metadata.modified().ok()?, path)).filter(|_| is_one)
    };
    entries.filter_map(certificate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_receiver_has_no_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let outbox = Outbox::new(folder.path().to_owned(), 1_000);
        let to: NodeSelector = "uav7".parse().unwrap();
        assert!(certificate_for(&outbox, to, None).unwrap_err().contains("has not met"));
        write(&outbox, NodeId::from_bytes([1; 16]), b"no certificate").unwrap();
        assert_eq!(kept(&outbox).len(), 1);
        assert!(certificate_for(&outbox, to, None).is_err());
    }
}
