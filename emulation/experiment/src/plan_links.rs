//! Values and traces that a plan gives to the links of its topology.

use std::path::Path;

use roost_topology::amend;
use roost_topology::file::TraceKey;
use roost_topology::model::{NetIndex, NetKind, NetMember, Topology, TopologyChange, no_change_of_radio};
use roost_topology::suggest::did_you_mean;
use roost_topology::trace::{self, Playback, TraceSide, TraceStore};

use super::plan::{LinkTrace, Named, Plan, PlanError, PlanErrors};

/// Gives links and LANs the plan's values, and then its traces.
///
/// # Errors
/// Fails when a name is unknown, a trace cannot be read, or a value has no effect beside a trace.
pub(super) fn apply(plan: &Plan, network: &mut Topology, file: &Path) -> Result<(), PlanError> {
    let mut wrong = PlanErrors::default();
    for (named, changes) in &plan.links {
        match net(network, named, file) {
            Ok(index) => changes.iter().for_each(|change| amend(network, index, None, *change)),
            Err(error) => wrong.record_error(Err(error)),
        }
    }
    let store = TraceStore::new(file.parent().unwrap_or(Path::new("")));
    for given in &plan.traces {
        wrong.record_error(set_trace(given, plan, network, &store, file));
    }
    for (named, changes) in &plan.links {
        let Some(index) = network.net_index(&named.name) else { continue };
        let playing = network.nets[index].members.iter().flat_map(playbacks).next();
        let useless =
            playing.and_then(|playing| Some((playing, changes.iter().find_map(|change| given(playing, change))?)));
        if let Some((playing, value)) = useless {
            let name = &named.name;
            let message = format!(
                "`{name}` plays {}, which gives the {value}: leave `{value}` out, or end the trace with trace = false",
                playing.file
            );
            wrong.record_error(Err(PlanError::new(file, named.line, message)));
        }
    }
    wrong.into_result()
}

fn playbacks(member: &NetMember) -> impl Iterator<Item = &Playback> {
    [&member.to_net, &member.from_net].into_iter().filter_map(|leg| leg.trace.as_deref())
}

/// The value of a change that a trace gives.
fn given(playing: &Playback, change: &TopologyChange) -> Option<&'static str> {
    let content = &playing.trace.content;
    match change {
        TopologyChange::Rate(_) if content.has_rate() => Some("rate"),
        TopologyChange::Delay(_) if content.first().delay.is_some() => Some("delay"),
        TopologyChange::Loss(_) if content.first().loss.is_some() => Some("loss"),
        _ => None,
    }
}

fn set_trace(
    given: &LinkTrace,
    plan: &Plan,
    network: &mut Topology,
    store: &TraceStore,
    file: &Path,
) -> Result<(), PlanError> {
    let error = |message: String| PlanError::new(file, given.net.line, message);
    let index = net(network, &given.net, file)?;
    let net = &mut network.nets[index];
    if given.side != TraceSide::All && net.kind != NetKind::Link {
        let message = format!("`{}` is a LAN, and has no up and down: write trace for all of it", net.name);
        return Err(error(message));
    }
    let playback = match &given.key {
        TraceKey::Off => None,
        TraceKey::File(key) => Some(key.load(store).map_err(|wrong| error(wrong.to_string()))?),
    };
    let gave_rate = net.members.iter().any(|member| member.to_net.rate_trace().is_some());
    trace::play(net, given.side, playback.as_ref());
    let has_own = |change: &TopologyChange| matches!(change, TopologyChange::Rate(_));
    let is_set = plan.links.iter().any(|(named, changes)| named.name == net.name && changes.iter().any(has_own));
    let is_bare = |member: &NetMember| member.to_net.rate.is_unlimited() && member.to_net.rate_trace().is_none();
    if gave_rate && !is_set && net.members.iter().any(is_bare) {
        let message = format!(
            "without its trace `{}` has no rate: write links.{}.rate too, \"unlimited\" if that is meant",
            net.name, net.name
        );
        return Err(error(message));
    }
    Ok(())
}

/// Gives the plan's traces the names that they have in results.
pub(super) fn name_traces(plan: &mut Plan, network: &Topology) {
    for given in &mut plan.traces {
        let net = network.net_index(&given.net.name).map(|net| &network.nets[net]);
        let member = net.and_then(|net| net.members.get(usize::from(given.side == TraceSide::Down)));
        let playback = member.and_then(|member| member.to_net.trace.as_ref());
        if let (TraceKey::File(key), Some(playback)) = (&mut given.key, playback) {
            key.file.clone_from(&playback.file);
        }
    }
}

/// The link or LAN of this name, which a plan may change.
pub(super) fn net(topology: &Topology, named: &Named, file: &Path) -> Result<NetIndex, PlanError> {
    let found = topology.net_index(&named.name).ok_or_else(|| {
        let near = did_you_mean(&named.name, topology.nets.iter().map(|net| net.name.as_str()));
        PlanError::new(file, named.line, format!("the topology has no link or LAN `{}`{near}", named.name))
    })?;
    match topology.radio(found) {
        Some(_) => Err(PlanError::new(file, named.line, no_change_of_radio(&named.name))),
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use crate::prepare::Prepared;

    /// A plan over a link `x` that plays a trace of rate and delay.
    fn prepared(links: &str) -> Result<Prepared, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t"), "time_s,rate_mbps,delay_ms\n0,1,10\n1,2,30\n").unwrap();
        let net =
            "[[host]]\nname = ['node1', 'node2']\n[[link]]\nname = 'x'\nbetween = ['node1', 'node2']\ntrace = 't'\n";
        std::fs::write(folder.path().join("n.toml"), net).unwrap();
        let text = format!("topology = 'n.toml'\narchitecture = 'super-node'\nduration = '60s'\n[links.x]\n{links}");
        Prepared::from_text(&text, &folder.path().join("p.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn value_beside_its_trace_is_refused() {
        let wrong = |links: &str| prepared(links).unwrap_err();
        let told = wrong("delay = '5ms'\n");
        assert!(told.contains("p.toml:4: `x` plays t, which") && told.contains("gives the delay"), "{told}");
        assert!(wrong("rate = '5Mbit'\n").contains("gives the rate"));
        assert!(prepared("loss = 0.1\n").is_ok());
    }

    #[test]
    fn link_without_trace_needs_rate() {
        let told = prepared("trace = false\n").unwrap_err();
        assert!(told.contains("p.toml:5: without its trace `x` has no rate: write links.x.rate too"), "{told}");
        assert!(prepared("trace = false\nrate = '1Mbit'\ndelay = '5ms'\n").is_ok());
    }
}
