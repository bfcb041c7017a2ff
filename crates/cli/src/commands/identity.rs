//! `roost identity`: a key with the request for its certificate, where there is no network to the authority; the change of
//! a member's key; and what an identity says.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use roost_authority::RenewError;
use roost_identity::{Enrolment, Identity, RenewalKey};
use roost_terminal::{Output, SCHEMA};
use roost_wire::Role;
use serde_json::json;

use super::date;
use super::join::default_folder;
use crate::args::{IdentityArgs, IdentityCommand};
use crate::failure::{Failure, Outcome};

pub(crate) fn run(args: &IdentityArgs, output: Output) -> Outcome {
    let folder = |to: &Option<PathBuf>| to.clone().map_or_else(default_folder, Ok);
    match &args.command {
        IdentityCommand::Request { name, role, to } => request(name, *role, &folder(to)?, output),
        IdentityCommand::Rotate { authority, to } => rotate(authority, &folder(to)?, output),
        IdentityCommand::Show { dir } => show(&folder(dir)?, output),
    }
}

fn request(name: &str, role: Role, dir: &Path, output: Output) -> Outcome {
    let enrolment = Enrolment::begin(dir)?;
    let request = enrolment.request_pem(Some(name), Some(role))?;
    let words = enrolment.fingerprint().words();
    if output.is_json() {
        return Ok(output.json(&json!({"schema": SCHEMA, "dir": dir, "request": request, "words": words}))?);
    }
    output.data(&request)?;
    output.say(format!("The key stays beside {}. Its words: {words}.", dir.display()));
    output.say("Next, where the group's key is: roost group sign DIR FILE");
    Ok(())
}

/// Gives a member a new key, and with it another id.
fn rotate(authority: &str, dir: &Path, output: Output) -> Outcome {
    let held = Arc::new(Identity::load(dir).map_err(|error| Failure::failed(error.to_string()))?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let renewed = runtime.block_on(roost_authority::renew(dir, &held, authority, RenewalKey::New));
    let fresh = renewed.map_err(|error| match error {
        RenewError::Client(error) => error.into(),
        other => Failure::failed(other.to_string()),
    })?;
    let (old, new) = (held.node(), fresh.node());
    if output.is_json() {
        let (name, role) = (fresh.name(), fresh.role().name());
        let answer = json!({
            "schema": SCHEMA, "dir": dir, "name": name, "role": role, "node": new.to_string(), "former": old.to_string()
        });
        return Ok(output.json(&answer)?);
    }
    output.data(&format!("{} {} has a new key: id {new}, before {old}\n", fresh.role(), fresh.name()))?;
    let unit = match fresh.role() {
        Role::Node => "overlay-node",
        Role::SuperNode => "supernode",
        Role::Server => "cs-server",
    };
    output.say(format!("Its daemon goes on with the former key until: systemctl restart {unit}"));
    output.say(format!("If the former key may be known to others: roost group revoke DIR {old}"));
    Ok(())
}

fn show(dir: &Path, output: Output) -> Outcome {
    let identity = Identity::load(dir).map_err(|error| Failure::failed(error.to_string()))?;
    let (name, role, group, node) = (identity.name(), identity.role(), identity.group(), identity.node());
    let (labels, until) = (identity.labels(), identity.not_after());
    if output.is_json() {
        let not_after = until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        return Ok(output.json(&json!({
            "schema": SCHEMA, "dir": dir, "name": name, "role": role.name(), "labels": labels, "group": group,
            "node": node.to_string(), "not_after_unix_s": not_after,
            "authority_words": identity.authority_fingerprint().words()
        }))?);
    }
    let shown = if labels.is_empty() { "-".to_owned() } else { labels.to_string() };
    output.data(&format!("member      {role} {name} of group {group}\nid          {node}\nlabels      {shown}\n"))?;
    output.data(&format!("valid       until {}\n", date(until)))?;
    output.data(&format!("authority   {}\n", identity.authority_fingerprint().words()))?;
    if let Err(error) = identity.check_validity(SystemTime::now()) {
        output.say(error.to_string());
    }
    Ok(())
}
