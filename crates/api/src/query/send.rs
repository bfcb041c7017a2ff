use std::fmt::Write as _;
use std::time::Duration;

use roost_wire::messages::DEFAULT_TIMEOUT;
use roost_wire::object::{digest_text, parse_digest};
use roost_wire::{Endpoint, NodeSelector};

use super::{Params, QueryError, QueryPairs, escaped, push_duration};

/// The query of `POST /v1/send`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendQuery {
    /// `node=NODE`: the receiver's id, the beginning of one, or its name.
    pub node: NodeSelector,
    /// `address=ENDPOINT,ENDPOINT`: the node's endpoints. Without it the daemon looks for them.
    pub addresses: Vec<Endpoint>,
    /// `name=NAME`: the file's name at the receiver.
    pub name: String,
    pub bytes: u64,
    /// `sha256=HEX`.
    pub digest: [u8; 32],
    /// `timeout=10s`: the longest wait for the node's answer.
    pub timeout: Duration,
}

impl SendQuery {
    /// # Errors
    /// One sentence that says which parameter is wrong and what was expected.
    pub fn from_pairs(pairs: &QueryPairs) -> Result<Self, QueryError> {
        let params = Params::new(pairs, &["node", "address", "name", "bytes", "sha256", "timeout"])?;
        let digest = params.required::<String>("sha256")?;
        let wrong = || QueryError(format!("sha256={digest}: expected 64 hexadecimal digits"));
        Ok(Self {
            node: params.selector("node")?.ok_or_else(|| QueryError("parameter \"node\" is missing".to_owned()))?,
            addresses: params.get("address").map_or(Ok(Vec::new()), endpoints)?,
            name: params.required("name")?,
            bytes: params.required("bytes")?,
            digest: parse_digest(&digest).ok_or_else(wrong)?,
            timeout: params.duration("timeout")?.unwrap_or(DEFAULT_TIMEOUT),
        })
    }

    /// Writes the query without the question mark.
    pub fn to_text(&self) -> String {
        let mut text =
            format!("node={}&name={}&bytes={}", escaped(self.node.as_str()), escaped(&self.name), self.bytes);
        let _ = write!(text, "&sha256={}", digest_text(&self.digest));
        if !self.addresses.is_empty() {
            let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
            let _ = write!(text, "&address={}", escaped(&addresses.join(",")));
        }
        push_duration(&mut text, "timeout", self.timeout);
        text
    }
}

fn endpoints(list: &str) -> Result<Vec<Endpoint>, QueryError> {
    let one = |text: &str| text.parse().map_err(|error| QueryError(format!("address={text}: {error}")));
    list.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_file_name_round_trips() {
        let query = SendQuery {
            node: "uav7".parse().unwrap(),
            addresses: vec!["quic://[::1]+10.0.0.1:7".parse().unwrap(), "udp://host:8".parse().unwrap()],
            name: "a&b=c d/é%+#?.tif".to_owned(),
            bytes: u64::MAX,
            digest: [0xab; 32],
            timeout: Duration::from_secs(3),
        };
        let text = query.to_text();
        let uri: axum::http::Uri = format!("/v1/send?{text}").parse().unwrap();
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri).unwrap();
        assert_eq!(SendQuery::from_pairs(&QueryPairs(pairs.0)), Ok(query));
    }
}
