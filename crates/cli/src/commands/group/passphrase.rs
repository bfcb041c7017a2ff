//! The group's key: opened, sealed and unsealed with a passphrase that comes from a file, from systemd or from a prompt.

use std::io::{self, IsTerminal};
use std::path::Path;

use roost_identity::group::{Group, GroupError, GroupRecords};
use roost_terminal::{Output, SCHEMA};
use serde_json::json;

use crate::failure::{Failure, Outcome};

/// The name of the credential in the folder that systemd makes for a service.
const CREDENTIAL: &str = "group-passphrase";

/// Opens the group, with its passphrase if its key is sealed.
pub(in crate::commands) fn open_group(dir: &Path, file: Option<&Path>) -> Outcome<Group> {
    if !GroupRecords::open(dir)?.is_sealed()? {
        return Ok(Group::open(dir)?);
    }
    match stored(file)? {
        Some(passphrase) => Ok(Group::open_sealed(dir, &passphrase)?),
        None if io::stdin().is_terminal() => Ok(Group::open_sealed(dir, &prompt("Passphrase of the group's key: ")?)?),
        None => Err(GroupError::Sealed { path: dir.join("group.key") }.into()),
    }
}

pub(super) fn seal(dir: &Path, file: Option<&Path>, output: Output) -> Outcome {
    let passphrase = match stored(file)? {
        Some(passphrase) => passphrase,
        None if io::stdin().is_terminal() => {
            let passphrase = prompt("New passphrase of the group's key: ")?;
            if prompt("The same again: ")? != passphrase {
                return Err(Failure::usage("the two passphrases differ: nothing was changed"));
            }
            passphrase
        }
        None => {
            return Err(Failure::usage("there is no terminal to ask for a passphrase: give --passphrase-file FILE"));
        }
    };
    Group::seal(dir, &passphrase)?;
    report_state(dir, "sealed", output)
}

pub(super) fn unseal(dir: &Path, file: Option<&Path>, output: Output) -> Outcome {
    let passphrase = match stored(file)? {
        Some(passphrase) => passphrase,
        None if io::stdin().is_terminal() => prompt("Passphrase of the group's key: ")?,
        None => return Err(GroupError::Sealed { path: dir.join("group.key") }.into()),
    };
    Group::unseal(dir, &passphrase)?;
    report_state(dir, "unsealed", output)
}

fn report_state(dir: &Path, state: &str, output: Output) -> Outcome {
    if output.is_json() {
        return Ok(output.json(&json!({"schema": SCHEMA, "dir": dir, "key": state}))?);
    }
    Ok(output.data(&format!("the key of the group in {} is {state}\n", dir.display()))?)
}

/// The passphrase in the file, or else in systemd's credential.
fn stored(file: Option<&Path>) -> Outcome<Option<String>> {
    let credential = || Some(Path::new(&std::env::var_os("CREDENTIALS_DIRECTORY")?).join(CREDENTIAL));
    let Some(path) = file.map(Path::to_owned).or_else(|| credential().filter(|path| path.exists())) else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(&path).map_err(|error| Failure::file("read", &path, &error))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

fn prompt(words: &str) -> Outcome<String> {
    rpassword::prompt_password(words).map_err(|error| Failure::failed(format!("cannot ask for a passphrase: {error}")))
}
