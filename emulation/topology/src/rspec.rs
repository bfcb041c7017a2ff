//! A topology as a GENI version 3 request RSpec, for CloudLab and Emulab.
//!
//! Hosts become nodes with the same addresses, links and LANs become links, routes and start programs become
//! `execute` services. The shaping of a LAN's legs is written as geni-lib writes it: a property between the
//! interface and the link itself. Parts that a request cannot express (queues, jitter, bursts, a schedule) are
//! listed, and left to the programs.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event as Xml};

use crate::addresses::{AddressError, Subnet, assign, network};
use crate::model::{
    Action, HostIndex, HostProgram, Leg, Net, NetKind, PacketOrder, ProgramAction, Queue, Routing, Topology,
};
use crate::routes::{self, HostRoute};

const NAMESPACE: &str = "http://www.geni.net/resources/rspec/3";
const SCHEMA: &str = "http://www.geni.net/resources/rspec/3 http://www.geni.net/resources/rspec/3/request.xsd";
/// The prefix of the image URN for an operating system of an NS file.
const IMAGE: &str = "urn:publicid:IDN+emulab.net+image+emulab-ops//";

/// A request, and the parts that it cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RspecRequest {
    pub text: String,
    pub lost: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum RspecError {
    #[error(transparent)]
    Addresses(#[from] AddressError),
    #[error("cannot write the XML: {0}")]
    Xml(#[from] io::Error),
}

/// Writes a request.
///
/// # Errors
/// Fails when some interface gets no address.
pub fn write(topology: &Topology) -> Result<RspecRequest, RspecError> {
    let topology = assign(topology)?;
    let lost = lost(&topology);
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Xml::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let heading = format!(" {}: {} nodes ", topology.name, topology.hosts.len());
    writer.write_event(Xml::Comment(comment(&heading)))?;
    for line in &lost {
        writer.write_event(Xml::Comment(comment(&format!(" Not in this request: {line} "))))?;
    }
    let root = writer.create_element("rspec").with_attributes([
        ("xmlns", NAMESPACE),
        ("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance"),
        ("xsi:schemaLocation", SCHEMA),
        ("type", "request"),
    ]);
    root.write_inner_content(|writer| {
        let (interfaces, routes) = (topology.interfaces(), routes::compute(&topology));
        for (host, (interfaces, routes)) in interfaces.iter().zip(&routes).enumerate() {
            node(writer, &topology, host, interfaces, routes)?;
        }
        topology.nets.iter().enumerate().try_for_each(|(index, net)| {
            link(writer, &RspecInterfaceNames { topology: &topology, interfaces: &interfaces, net: index }, net)
        })
    })?;
    let mut text = String::from_utf8(writer.into_inner()).map_err(io::Error::other)?;
    text.push('\n');
    Ok(RspecRequest { text, lost })
}

/// A comment, in which two hyphens must not follow each other.
fn comment(text: &str) -> BytesText<'static> {
    BytesText::from_escaped(text.replace("--", "- -")).into_owned()
}

fn node(
    writer: &mut Writer<Vec<u8>>,
    topology: &Topology,
    index: HostIndex,
    interfaces: &[(usize, usize)],
    routes: &[HostRoute],
) -> io::Result<()> {
    let host = &topology.hosts[index];
    let element =
        writer.create_element("node").with_attributes([("client_id", host.name.as_str()), ("exclusive", "true")]);
    element.write_inner_content(|writer| {
        let sliver = writer.create_element("sliver_type").with_attribute(("name", "raw-pc"));
        match &host.os {
            None => sliver.write_empty()?,
            Some(os) => {
                let image = if os.starts_with("urn:") { os.clone() } else { format!("{IMAGE}{os}") };
                sliver.write_inner_content(|writer| {
                    writer.create_element("disk_image").with_attribute(("name", image.as_str())).write_empty()?;
                    Ok(())
                })?
            }
        };
        if let Some(hardware) = &host.hardware {
            writer.create_element("hardware_type").with_attribute(("name", hardware.as_str())).write_empty()?;
        }
        services(writer, topology, index, routes)?;
        for (port, (net, member)) in interfaces.iter().enumerate() {
            let member = &topology.nets[*net].members[*member];
            interface(writer, &interface_name(&host.name, port), member.address, member.prefix)?;
        }
        Ok(())
    })?;
    Ok(())
}

fn services(
    writer: &mut Writer<Vec<u8>>,
    topology: &Topology,
    host: HostIndex,
    routes: &[HostRoute],
) -> io::Result<()> {
    let programs = started(topology).filter(|(program, _)| program.host == host).map(|(_, command)| command);
    let commands: Vec<String> = routing(topology, host, routes).into_iter().chain(programs).collect();
    if commands.is_empty() {
        return Ok(());
    }
    writer.create_element("services").write_inner_content(|writer| {
        for command in &commands {
            let execute = writer.create_element("execute");
            execute.with_attributes([("shell", "sh"), ("command", command.as_str())]).write_empty()?;
        }
        Ok(())
    })?;
    Ok(())
}

/// The command that sets a node's routes: one for each subnet, since a default route would cut off the
/// testbed's own network.
fn routing(topology: &Topology, host: HostIndex, routes: &[HostRoute]) -> Option<String> {
    let forwards = topology.nets.iter().filter(|net| net.members.iter().any(|member| member.host == host)).count() > 1;
    let mut commands = Vec::new();
    if forwards && topology.routing != Routing::None {
        commands.push("sudo sysctl -qw net.ipv4.ip_forward=1".to_owned());
    }
    for route in routes {
        let Some(via) = route.via else { continue };
        let subnets = if route.prefix == 0 { far_subnets(topology, host) } else { vec![route.subnet()] };
        commands.extend(subnets.iter().map(|to| format!("sudo ip route replace {to} via {via}")));
    }
    (!commands.is_empty()).then(|| commands.join(" && "))
}

/// The subnets that a host is not on. If all are in 10/8, as automatic ones are, 10/8 stands for them: the
/// host's own subnets are more specific.
fn far_subnets(topology: &Topology, host: HostIndex) -> Vec<Subnet> {
    let ten = Subnet { address: Ipv4Addr::new(10, 0, 0, 0), prefix: 8 };
    let far = topology.nets.iter().filter(|net| net.members.iter().all(|member| member.host != host));
    let addresses =
        far.filter_map(|net| net.members.first()).filter_map(|member| Some((member.address?, member.prefix)));
    let subnet = |(address, prefix)| Subnet { address: network(address, prefix), prefix };
    let subnets: Vec<Subnet> = addresses.map(subnet).collect();
    if subnets.iter().all(|subnet| subnet.overlaps(ten)) { vec![ten] } else { subnets }
}

/// The programs that start when the hosts are ready, with their commands.
fn started(topology: &Topology) -> impl Iterator<Item = (&HostProgram, String)> {
    topology.events.iter().filter_map(|event| {
        let Action::Program { program, what: ProgramAction::Start(command) | ProgramAction::Run(command) } =
            &event.action
        else {
            return None;
        };
        let program = topology.programs.get(*program)?;
        let command = command.as_deref().unwrap_or(&program.command);
        let command =
            program.folder.as_ref().map_or_else(|| command.to_owned(), |folder| format!("cd '{folder}' && {command}"));
        (event.at == Duration::ZERO && event.after.is_none() && !command.is_empty()).then_some((program, command))
    })
}

fn interface(writer: &mut Writer<Vec<u8>>, name: &str, address: Option<Ipv4Addr>, prefix: u8) -> io::Result<()> {
    let element = writer.create_element("interface").with_attribute(("client_id", name));
    element.write_inner_content(|writer| {
        let Some(address) = address else { return Ok(()) };
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        let (address, netmask) = (address.to_string(), Ipv4Addr::from_bits(mask).to_string());
        let attributes = [("address", address.as_str()), ("netmask", netmask.as_str()), ("type", "ipv4")];
        writer.create_element("ip").with_attributes(attributes).write_empty()?;
        Ok(())
    })?;
    Ok(())
}

fn interface_name(host: &str, port: usize) -> String {
    format!("{host}:if{port}")
}

/// The names of the interfaces of one net.
struct RspecInterfaceNames<'a> {
    topology: &'a Topology,
    interfaces: &'a [Vec<(usize, usize)>],
    net: usize,
}

impl RspecInterfaceNames<'_> {
    fn host_interface(&self, host: HostIndex) -> String {
        let port = self.interfaces[host].iter().position(|(net, _)| *net == self.net);
        interface_name(&self.topology.hosts[host].name, port.unwrap_or(0))
    }
}

fn link(writer: &mut Writer<Vec<u8>>, names: &RspecInterfaceNames<'_>, net: &Net) -> io::Result<()> {
    let element = writer.create_element("link").with_attribute(("client_id", net.name.as_str()));
    element.write_inner_content(|writer| {
        for member in &net.members {
            let name = names.host_interface(member.host);
            writer.create_element("interface_ref").with_attribute(("client_id", name.as_str())).write_empty()?;
        }
        match (net.kind, net.members.as_slice()) {
            (NetKind::Link, [a, b]) => {
                let (one, other) = (names.host_interface(a.host), names.host_interface(b.host));
                property(writer, &one, &other, &a.to_net.joined(&b.from_net))?;
                property(writer, &other, &one, &b.to_net.joined(&a.from_net))?;
            }
            _ => {
                for member in &net.members {
                    let name = names.host_interface(member.host);
                    property(writer, &name, &net.name, &member.to_net)?;
                    if shaping(&member.to_net) != shaping(&member.from_net) {
                        property(writer, &net.name, &name, &member.from_net)?;
                    }
                }
            }
        }
        if net.kind == NetKind::Lan {
            writer.create_element("link_type").with_attribute(("name", "lan")).write_empty()?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Rate in kbit/s, delay in milliseconds, loss from 0 to 1; `None` for a value that is not shaped.
fn shaping(leg: &Leg) -> [Option<String>; 3] {
    let loss: f64 = format!("{:.9}", leg.loss).parse().unwrap_or(leg.loss);
    let ms = leg.delay.as_nanos() as f64 / 1e6;
    [
        (!leg.rate.is_unlimited()).then(|| (leg.rate.bps().div_ceil(1000)).to_string()),
        (!leg.delay.is_zero()).then(|| ms.to_string()),
        (loss > 0.0).then(|| loss.to_string()),
    ]
}

fn property(writer: &mut Writer<Vec<u8>>, from: &str, to: &str, leg: &Leg) -> io::Result<()> {
    let values = shaping(leg);
    if values.iter().all(Option::is_none) {
        return Ok(());
    }
    let mut element = writer.create_element("property").with_attributes([("source_id", from), ("dest_id", to)]);
    for (name, value) in ["capacity", "latency", "packet_loss"].into_iter().zip(&values) {
        if let Some(value) = value {
            element = element.with_attribute((name, value.as_str()));
        }
    }
    element.write_empty()?;
    Ok(())
}

/// Lists the parts that a request cannot express.
fn lost(topology: &Topology) -> Vec<String> {
    let legs = topology.nets.iter().flat_map(|net| &net.members).flat_map(|member| [&member.to_net, &member.from_net]);
    let any = |test: &dyn Fn(&Leg) -> bool| legs.clone().any(test);
    let scheduled = topology.events.len() - started(topology).count();
    let all = [
        any(&|leg| leg.queue != Queue::DEFAULT).then(|| "queues that are not the default".to_owned()),
        any(&|leg| !leg.jitter.is_zero()).then(|| "jitter".to_owned()),
        any(&|leg| leg.burst.is_some()).then(|| "loss in bursts".to_owned()),
        any(&|leg| leg.order == PacketOrder::Free).then(|| "reordering".to_owned()),
        any(&|leg| leg.trace.is_some()).then(|| "traces: links keep one rate, delay and loss".to_owned()),
        (scheduled > 0).then(|| format!("{scheduled} scheduled events")),
        (!topology.radios.is_empty()).then(|| format!("{} radios, which are LANs here", topology.radios.len())),
        (!topology.motion.is_empty()).then(|| "the places of hosts".to_owned()),
        (!topology.traffic.is_empty()).then(|| format!("{} traffic agents", topology.traffic.len())),
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
