//! Files that go to a node's inbox.

use std::io::SeekFrom;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use roost_api::{Client, OutboxTerms, SendEvent, SendQuery};
use roost_wire::messages::DEFAULT_TIMEOUT;
use roost_wire::{Endpoint, NodeId, NodeSelector};
use sha2::{Digest, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::Error;

const READ_BYTES: usize = 256 * 1024;

/// The choices about a file that is sent; all have defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendOptions {
    /// The file's name at the receiver; its own by default.
    pub name: Option<String>,
    /// The receiver's endpoints, if no hub knows it.
    pub addresses: Vec<Endpoint>,
    /// The longest wait for the receiver's answer; 10 s by default.
    pub timeout: Duration,
    /// The file goes into the outbox, to be delivered later.
    pub outbox: Option<OutboxTerms>,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self { name: None, addresses: Vec::new(), timeout: DEFAULT_TIMEOUT, outbox: None }
    }
}

/// The end of a file that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The receiver has verified it and given it its name.
    Delivered { node: Option<NodeId>, name: Option<String> },
    /// The daemon has it in its outbox.
    Queued {
        /// The delivery's id: 16 hexadecimal digits.
        id: String,
        until_unix_s: u64,
    },
}

pub(crate) async fn send(client: &Client, path: &Path, to: NodeSelector, options: SendOptions) -> Result<Sent, Error> {
    let unread = |source| Error::File { path: path.display().to_string(), source };
    let mut file = File::open(path).await.map_err(unread)?;
    let (bytes, digest) = read_through(&mut file).await.map_err(unread)?;
    let SendOptions { name, addresses, timeout, outbox } = options;
    let own = || path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.unwrap_or_else(own);
    let query = SendQuery { node: to, addresses, name, bytes, digest, timeout, outbox };
    let is_awaited = outbox.is_some_and(|terms| terms.wait);
    let mut events = client.send_file(&query).await?;
    while let Some(event) = events.next().await? {
        match event {
            SendEvent::Read { session, offset, bytes, .. } => {
                let chunk = chunk(&mut file, offset, bytes).await.map_err(unread)?;
                client.send_chunk(session, offset, chunk).await?;
            }
            SendEvent::Finished { node, node_name } => return Ok(Sent::Delivered { node, name: node_name }),
            SendEvent::Queued { id, until_unix_s } if !is_awaited => return Ok(Sent::Queued { id, until_unix_s }),
            SendEvent::Failed { error } => return Err(Error::Incomplete { error, summary: None }),
            _ => {}
        }
    }
    Err(Error::broken_off())
}

async fn read_through(file: &mut File) -> std::io::Result<(u64, [u8; 32])> {
    let (mut digest, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; READ_BYTES]);
    loop {
        let read = file.read(&mut buffer).await?;
        if read == 0 {
            return Ok((bytes, digest.finalize().into()));
        }
        digest.update(&buffer[..read]);
        bytes += read as u64;
    }
}

async fn chunk(file: &mut File, offset: u64, bytes: u64) -> std::io::Result<Bytes> {
    file.seek(SeekFrom::Start(offset)).await?;
    let mut chunk = Vec::new();
    file.take(bytes).read_to_end(&mut chunk).await?;
    Ok(chunk.into())
}
