//! `roost group invite` and its kin: the addresses with which devices join.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::SystemTime;

use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use roost_audit::{AuditEvent, AuditKind};
use roost_identity::InvitationAddress;
use roost_identity::group::{GroupRecords, InvitationSpec};
use roost_terminal::{Output, SCHEMA, Table};
use serde_json::{Value, json};

use super::super::date;
use super::{audit, labels, unix};
use crate::args::{HubsCommand, InviteArgs};
use crate::failure::{Failure, Outcome};

pub(super) fn invite(args: &InviteArgs, output: Output) -> Outcome {
    let (records, now) = (GroupRecords::open(&args.dir)?, SystemTime::now());
    if let Some(address) = &args.authority {
        records.set_address(address)?;
    }
    let unknown = || Failure::usage("the group has no address of its authority yet: give --authority HOST:PORT");
    let authority = records.address()?.ok_or_else(unknown)?;
    let spec = InvitationSpec {
        role: args.role,
        name: args.name.clone(),
        labels: labels::parse(&args.labels)?,
        valid: args.valid,
        uses: args.uses,
        needs_approval: args.approve,
        certificate: args.certificate,
    };
    let token = records.invite(&spec, now)?;
    let made = AuditEvent::new(AuditKind::InvitationMade).with("invitation", token.id()).with("uses", args.uses);
    let made = made.with("role", args.role.name()).with("name", args.name.clone()).with("approval", args.approve);
    audit::record(&records, made.with("labels", spec.labels.to_string()), output);
    let link = InvitationAddress { authority, token, fingerprint: records.fingerprint() }.to_string();
    let until = now + args.valid;
    if output.is_json() {
        return Ok(output.json(&json!({
            "schema": SCHEMA, "link": link, "role": args.role.name(), "name": args.name, "labels": spec.labels,
            "uses": args.uses, "needs_approval": args.approve, "valid_until_unix_s": unix(until)
        }))?);
    }
    output.data(&format!("{link}\n"))?;
    if io::stdout().is_terminal() && !output.is_quiet() {
        output.data(&drawn(&link)?)?;
    }
    output.say(format!("Valid until {}. Who has it may join: send it over a channel that you trust.", date(until)));
    output.say("Next, on the device: roost join 'LINK' --start");
    Ok(())
}

/// The address as a QR code of half blocks, for terminals with a dark background.
fn drawn(link: &str) -> Outcome<String> {
    let code = QrCode::with_error_correction_level(link, EcLevel::L);
    let code = code.map_err(|error| Failure::failed(format!("cannot draw the invitation: {error}")))?;
    let mut renderer = code.render::<Dense1x2>();
    Ok(renderer.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build() + "\n")
}

pub(super) fn list(dir: &Path, output: Output) -> Outcome {
    let open = GroupRecords::open(dir)?.invitations(SystemTime::now())?;
    if output.is_json() {
        let shown = open.iter().map(|one| {
            json!({
                "id": one.id, "role": one.role.name(), "name": one.name, "labels": one.labels,
                "uses_left": one.uses_left, "needs_approval": one.needs_approval, "valid_until_unix_s": unix(one.valid_until)
            })
        });
        return Ok(output.json(&json!({"schema": SCHEMA, "invitations": shown.collect::<Vec<Value>>()}))?);
    }
    let mut table = Table::new(&["ID", "ROLE", "NAME", "LABELS", ">USES LEFT", "APPROVAL", "VALID UNTIL"]);
    for one in &open {
        let name = one.name.clone().unwrap_or_else(|| "-".to_owned());
        let approval = if one.needs_approval { "needed" } else { "-" };
        let (labels, uses, until) = (labels::shown(&one.labels), one.uses_left.to_string(), date(one.valid_until));
        let row = [&one.id, one.role.name(), &name, &labels, &uses, approval, &until];
        table.row(row.map(str::to_owned));
    }
    Ok(output.table(&table)?)
}

pub(super) fn withdraw(dir: &Path, id: &str, output: Output) -> Outcome {
    let records = GroupRecords::open(dir)?;
    records.withdraw(id, SystemTime::now())?;
    audit::record(&records, AuditEvent::new(AuditKind::InvitationEnded).with("invitation", id), output);
    if output.is_json() {
        return Ok(output.json(&json!({"schema": SCHEMA, "withdrawn": id}))?);
    }
    Ok(output.data(&format!("the invitation {id} has ended\n"))?)
}

pub(super) fn hubs(dir: &Path, change: Option<&HubsCommand>, output: Output) -> Outcome {
    let records = GroupRecords::open(dir)?;
    if let Some(HubsCommand::Set { hubs }) = change {
        records.set_hubs(hubs)?;
    }
    let hubs = records.hubs()?;
    if output.is_json() {
        return Ok(output.json(&json!({"schema": SCHEMA, "hubs": hubs}))?);
    }
    output.data(&hubs.iter().map(|hub| format!("{hub}\n")).collect::<String>())?;
    if hubs.is_empty() {
        output.say(format!("New members turn to no hub yet: roost group hubs {} set HUB", dir.display()));
    }
    Ok(())
}
