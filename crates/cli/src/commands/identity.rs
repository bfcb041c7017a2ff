//! `roost identity`: a key, and the request for its certificate, where there is no network to the authority.

use roost_identity::Enrolment;
use roost_terminal::{Output, SCHEMA};
use serde_json::json;

use super::join::default_folder;
use crate::args::{IdentityArgs, IdentityCommand};
use crate::failure::Outcome;

pub(crate) fn run(args: &IdentityArgs, output: Output) -> Outcome {
    let IdentityCommand::Request { name, role, to } = &args.command;
    let dir = to.clone().map_or_else(default_folder, Ok)?;
    let enrolment = Enrolment::begin(&dir)?;
    let request = enrolment.request_pem(Some(name), Some(*role))?;
    let words = enrolment.fingerprint().words();
    if output.is_json() {
        return Ok(output.json(&json!({"schema": SCHEMA, "dir": dir, "request": request, "words": words}))?);
    }
    output.data(&request)?;
    output.say(format!("The key stays beside {}. Its words: {words}.", dir.display()));
    output.say("Next, where the group's key is: roost group sign DIR FILE");
    Ok(())
}
