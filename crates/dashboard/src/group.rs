//! The rows of the group: members with their certificates, documents, audit records and rooms.

use std::collections::BTreeMap;

use roost_api::{
    AuditRow, AuditRows, ConnectionRow, Connections, DocumentHolder, DocumentRow, Documents, Member, Rooms,
};
use roost_wire::NodeId;
use serde_json::{Value, json};

use crate::picture::Rows;

/// The most members that are shown: those whose certificates end first.
const MAX_MEMBERS: usize = 2_000;

pub(crate) const AUDIT_RECORDS: u32 = 50;

/// The longest details of an audit record as JSON, bytes. Longer ones are left to `roost audit show`.
const MAX_DETAILS: usize = 1024;

/// The most names in a row of a document.
const MAX_NAMES: usize = 50;

/// The members at the other ends of connections.
pub(crate) fn members(connections: &Connections) -> Rows {
    let mut latest: BTreeMap<NodeId, &ConnectionRow> = BTreeMap::new();
    for row in connections.connections.iter().filter(|row| row.certificate_not_after_unix_s.is_some()) {
        let held = latest.entry(row.node).or_insert(row);
        if held.certificate_not_after_unix_s < row.certificate_not_after_unix_s {
            *held = row;
        }
    }
    let mut members: Vec<&ConnectionRow> = latest.into_values().collect();
    members.sort_by_key(|row| row.certificate_not_after_unix_s);
    let row = |row: &&ConnectionRow| {
        let member = json!({
            "node": row.node, "name": row.name, "role": row.role, "labels": row.labels.to_string(),
            "certificate_not_after_unix_s": row.certificate_not_after_unix_s
        });
        (format!("member/{}", row.node), member)
    };
    members.iter().take(MAX_MEMBERS).map(row).collect()
}

pub(crate) fn documents(documents: &Documents) -> Rows {
    let row = |document: &DocumentRow| {
        let mut row = json!({ "kind": document.kind, "number": document.number });
        let mut add = |key: &str, value: Value| {
            if !value.is_null() && value != json!([]) {
                row[key] = value;
            }
        };
        add("revoked", json!(document.revoked));
        add("nodes_revoked", names(&document.nodes_revoked));
        add("nodes", json!(document.nodes));
        add("behind", json!(document.behind));
        add("nodes_behind", names(&document.nodes_behind));
        add("hubs_behind", names(&document.hubs_behind));
        (format!("document/{}", document.kind), row)
    };
    documents.documents.iter().map(row).collect()
}

fn names(holders: &[DocumentHolder]) -> Value {
    let name = |holder: &DocumentHolder| holder.name.clone().unwrap_or_else(|| holder.node.to_string());
    holders.iter().take(MAX_NAMES).map(name).collect()
}

/// Keys put records in the order of their numbers.
pub(crate) fn audit(audit: &AuditRows) -> Rows {
    let row = |record: &AuditRow| {
        let details = Value::Object(record.details.clone());
        let is_short = details.to_string().len() <= MAX_DETAILS;
        let row = json!({
            "sequence": record.sequence, "time": record.time, "kind": record.kind, "node": record.node,
            "name": record.name, "details": if is_short { details } else { json!({ "left_out": true }) }
        });
        (format!("audit/{:020}", record.sequence), row)
    };
    audit.records.iter().map(row).collect()
}

pub(crate) fn rooms(rooms: &Rooms) -> Rows {
    let member = |member: &Member| {
        json!({
            "node": member.node, "name": member.name, "cell": member.cell,
            "services": member.services.iter().map(|service| service.full_text()).collect::<Vec<_>>()
        })
    };
    let row = |room: &roost_api::RoomRow| {
        let members: Vec<Value> = room.members.iter().map(member).collect();
        (format!("room/{}", room.room), json!({ "room": room.room, "name": room.name, "members": members }))
    };
    rooms.rooms.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use roost_api::SCHEMA;
    use serde_json::Map;

    use super::*;

    fn connection(node: &str, name: &str, until: Option<u64>) -> Value {
        json!({
            "node": node.repeat(32), "name": name, "role": "node", "labels": { "team": "red" }, "transport": "udp",
            "address": "udp://127.0.0.1:1", "dialed": false, "rtt_ms": 1.0, "sent_bytes": 0, "received_bytes": 0,
            "sent_messages": 0, "received_messages": 0, "retransmissions": 0, "since_s": 1.0,
            "certificate_not_after_unix_s": until
        })
    }

    #[test]
    fn latest_certificate_of_member_counts() {
        let all = [connection("1", "uav1", Some(5)), connection("1", "uav1", Some(9)), connection("2", "old", None)];
        let connections = serde_json::from_value(json!({ "schema": SCHEMA, "connections": all })).unwrap();
        let rows = members(&connections);
        assert_eq!(rows.len(), 1, "an older daemon tells no ends");
        let row = rows.values().next().unwrap();
        assert_eq!((&row["certificate_not_after_unix_s"], &row["labels"]), (&json!(9), &json!("team=red")));
    }

    #[test]
    fn members_that_end_first_are_shown() {
        let id = |number: u64| format!("{number:032x}");
        let row = |number: u64| {
            let mut row = connection("0", "uav", Some(10_000 - number));
            row["node"] = json!(id(number));
            row
        };
        let all: Vec<Value> = (0..2_500).map(row).collect();
        let connections = serde_json::from_value(json!({ "schema": SCHEMA, "connections": all })).unwrap();
        let rows = members(&connections);
        assert_eq!(rows.len(), MAX_MEMBERS);
        assert!(
            rows.contains_key(&format!("member/{}", id(2_499))) && !rows.contains_key(&format!("member/{}", id(0)))
        );
    }

    #[test]
    fn long_details_are_left_out() {
        let record = |sequence, rule: String| AuditRow {
            time: "2026-01-01T00:00:00.000Z".to_owned(),
            sequence,
            kind: "action-denied".to_owned(),
            node: None,
            name: None,
            details: Map::from_iter([("rule".to_owned(), json!(rule))]),
        };
        let records = vec![record(10, "no".to_owned()), record(9, "x".repeat(5_000))];
        let rows = audit(&AuditRows { schema: SCHEMA, is_kept: true, records });
        let details: Vec<&Value> = rows.values().map(|row| &row["details"]).collect();
        assert_eq!(details, [&json!({ "left_out": true }), &json!({ "rule": "no" })], "in the order of numbers");
    }

    #[test]
    fn documents_keep_few_names() {
        let holder = |number: u64| json!({ "node": format!("{number:032x}"), "name": format!("uav{number}") });
        let behind: Vec<Value> = (0..100).map(holder).collect();
        let answer = json!({ "schema": SCHEMA, "documents": [{
            "kind": "revocations", "number": 3, "bytes": 500, "revoked": 2, "nodes": 100, "behind": 100,
            "nodes_behind": behind, "nodes_revoked": [{ "node": "1".repeat(32), "name": "lost" }]
        }] });
        let rows = documents(&serde_json::from_value(answer).unwrap());
        let row = &rows["document/revocations"];
        assert_eq!(row["nodes_behind"].as_array().map(Vec::len), Some(MAX_NAMES));
        assert_eq!((&row["nodes_revoked"], row.get("hubs_behind")), (&json!(["lost"]), None));
    }
}
