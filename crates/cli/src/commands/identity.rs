//! `roost identity`: a key and the request for its certificate, where there is no network to the authority; and what an
//! identity says.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use roost_identity::{Enrolment, Identity};
use roost_terminal::{Output, SCHEMA};
use roost_wire::Role;
use serde_json::json;

use super::date;
use super::join::default_folder;
use crate::args::{IdentityArgs, IdentityCommand};
use crate::failure::{Failure, Outcome};

pub(crate) fn run(args: &IdentityArgs, output: Output) -> Outcome {
    match &args.command {
        IdentityCommand::Request { name, role, to } => {
            request(&to.clone().map_or_else(default_folder, Ok)?, name, *role, output)
        }
        IdentityCommand::Show { dir } => show(&dir.clone().map_or_else(default_folder, Ok)?, output),
    }
}

fn request(dir: &Path, name: &str, role: Role, output: Output) -> Outcome {
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
