use std::fmt::Write as _;
use std::time::Duration;

use roost_wire::messages::DEFAULT_TIMEOUT;
use roost_wire::object::{digest_text, parse_digest};
use roost_wire::{Endpoint, NodeSelector};

use super::{Params, QueryError, QueryPairs, escaped, push_duration};
use crate::types::Priority;

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
    /// The file goes into the outbox; `None` sends it now.
    pub outbox: Option<OutboxTerms>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxTerms {
    /// `until=N`: the end of the delivery, Unix seconds.
    pub until_unix_s: u64,
    /// `priority=low|normal|high`
    pub priority: Priority,
    /// `wait=true`: the last event tells the end of the delivery.
    pub wait: bool,
}

impl OutboxTerms {
    fn from_params(params: &Params<'_>) -> Result<Option<Self>, QueryError> {
        let Some(until_unix_s) = params.number("until", u64::MAX)? else { return Ok(None) };
        let priority = match params.get("priority") {
            None | Some("normal") => Priority::Normal,
            Some("low") => Priority::Low,
            Some("high") => Priority::High,
            Some(other) => return Err(QueryError(format!("priority={other}: expected low, normal or high"))),
        };
        Ok(Some(Self { until_unix_s, priority, wait: params.get("wait") == Some("true") }))
    }

    fn add_to(self, text: &mut String) {
        let priority = match self.priority {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
        };
        let _ = write!(text, "&until={}&priority={priority}&wait={}", self.until_unix_s, self.wait);
    }
}

impl SendQuery {
    /// # Errors
    /// One sentence that says which parameter is wrong and what was expected.
    pub fn from_pairs(pairs: &QueryPairs) -> Result<Self, QueryError> {
        let params = Params::new(
            pairs,
            &["node", "address", "name", "bytes", "sha256", "timeout", "until", "priority", "wait"],
        )?;
        let digest = params.required::<String>("sha256")?;
        let wrong = || QueryError(format!("sha256={digest}: expected 64 hexadecimal digits"));
        Ok(Self {
            node: params.selector("node")?.ok_or_else(|| QueryError("parameter \"node\" is missing".to_owned()))?,
            addresses: params.get("address").map_or(Ok(Vec::new()), endpoints)?,
            name: params.required("name")?,
            bytes: params.required("bytes")?,
            digest: parse_digest(&digest).ok_or_else(wrong)?,
            timeout: params.duration("timeout")?.unwrap_or(DEFAULT_TIMEOUT),
            outbox: OutboxTerms::from_params(&params)?,
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
        self.outbox.into_iter().for_each(|terms| terms.add_to(&mut text));
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
            outbox: Some(OutboxTerms { until_unix_s: 1_800_000_000, priority: Priority::High, wait: true }),
        };
        let text = query.to_text();
        let uri: axum::http::Uri = format!("/v1/send?{text}").parse().unwrap();
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri).unwrap();
        assert_eq!(SendQuery::from_pairs(&QueryPairs(pairs.0)), Ok(query));
    }
}
