//! `roost group rollover`: the group gets a new authority while its members run.

use std::path::Path;
use std::time::SystemTime;

use roost_identity::group::{Forced, Group, GroupRecords, Rollover};
use roost_terminal::{Output, SCHEMA, Table};
use roost_wire::format_node;
use serde_json::{Value, json};

use super::{certificate, publish};
use crate::args::HandInArgs;
use crate::commands::date;
use crate::failure::Outcome;

pub(super) fn start(group: &Group, dir: &Path, hand_in: &HandInArgs, output: Output) -> Outcome {
    let rollover = group.start_rollover(SystemTime::now())?;
    if !output.is_json() {
        output.data(&format!("document {} of group {} trusts two authorities\n", rollover.number, group.name()))?;
        output.say(format!("Keep a copy of {}: the key in next.key signs from now on.", dir.display()));
        output.say("Restart no daemon. Members renew by themselves: roost group rollover status tells who has not.");
    }
    spread(&rollover, dir, hand_in, output)
}

pub(super) fn finish(group: &Group, dir: &Path, forced: Forced, hand_in: &HandInArgs, output: Output) -> Outcome {
    let rollover = group.finish_rollover(forced, SystemTime::now())?;
    if !output.is_json() {
        let number = rollover.number;
        output.data(&format!("document {number} of group {} trusts the new authority alone\n", group.name()))?;
        for one in &rollover.behind {
            let who = format_node(one.node, Some(&one.name));
            output.say(format!("{} {who} is shut out: it needs a new invitation.", one.role));
        }
    }
    // The former authority's list and policy count no more once the document of trust is there.
    let mut signed_again = Ok(());
    for name in [publish::LIST, publish::POLICY] {
        let file = dir.join(name.file);
        if !hand_in.via.is_empty() && file.exists() {
            signed_again = signed_again.and(publish::hand_in(&name, &file, hand_in).outcome());
        }
    }
    spread(&rollover, dir, hand_in, output).and(signed_again)
}

/// Hands the document of trust to daemons, and says who has not heard.
fn spread(rollover: &Rollover, dir: &Path, hand_in: &HandInArgs, output: Output) -> Outcome {
    let handed = (!hand_in.via.is_empty()).then(|| publish::hand_in(&publish::TRUST, &rollover.document, hand_in));
    if output.is_json() {
        let mut answer = describe(rollover);
        if let Some(handed) = &handed {
            handed.add_to(&mut answer);
        }
        output.json(&answer)?;
        return handed.map_or(Ok(()), publish::HandIn::outcome);
    }
    if let Some(handed) = handed {
        handed.say(output);
        return handed.outcome();
    }
    let dir = dir.display();
    output.say(format!("Daemons hear of it from a running authority, or: roost group publish {dir} --via SOCKET"));
    Ok(())
}

pub(super) fn status(dir: &Path, output: Output) -> Outcome {
    let group = GroupRecords::open(dir)?;
    let rollover = group.rollover(SystemTime::now())?;
    if output.is_json() {
        return Ok(output.json(&describe(&rollover))?);
    }
    let words = rollover.in_force.words();
    let Some(former) = rollover.former else {
        return Ok(output.data(&format!("the authority of group {} is {words}\n", group.name()))?);
    };
    output.data(&format!("the authority of group {} is {words}; before: {}\n", group.name(), former.words()))?;
    if rollover.behind.is_empty() {
        output.say(format!("All members have renewed. Next: roost group rollover finish {}", dir.display()));
        return Ok(());
    }
    let mut table = Table::new(&["NAME", "ROLE", "NODE", "VALID UNTIL"]);
    for one in &rollover.behind {
        table.row([one.name.clone(), one.role.to_string(), one.node.to_string(), date(one.not_after)]);
    }
    output.table(&table)?;
    output.say("These members still hold a certificate of the former authority.");
    Ok(())
}

fn describe(rollover: &Rollover) -> Value {
    json!({
        "schema": SCHEMA,
        "number": rollover.number,
        "authority": rollover.in_force.to_string(),
        "former": rollover.former.map(|former| former.to_string()),
        "behind": rollover.behind.iter().map(certificate).collect::<Vec<_>>(),
        "document": rollover.document,
    })
}
