//! The source of a plan's network: a file, or a generator.

use std::fmt;
use std::path::PathBuf;

use roost_topology::generate::{Forest, GenerateError, LegParameters, Star, Tree, TreeShape};
use roost_topology::units::Rate;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::values::DurationText;

#[derive(Clone, Debug, PartialEq)]
pub enum TopologySource {
    /// A topology file, ours or an NS file; relative to the plan's folder.
    File(PathBuf),
    Star(Star),
    Tree(Tree),
    Forest(Forest),
}

/// `{ star = … }`; the defaults are the published values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StarFile {
    nodes: usize,
    rate: Option<Rate>,
    delay: Option<DurationText>,
    server_rate: Option<Rate>,
    server_delay: Option<DurationText>,
}

/// `{ tree = … }`; the defaults are the published or inferred values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TreeFile {
    nodes: usize,
    x45: Option<usize>,
    tactical: Option<usize>,
    low: Option<usize>,
    x45_rate: Option<Rate>,
    x45_delay: Option<DurationText>,
    tactical_rate: Option<Rate>,
    tactical_delay: Option<DurationText>,
    low_rate: Option<Rate>,
    low_delay: Option<DurationText>,
    server_rate: Option<Rate>,
    server_delay: Option<DurationText>,
}

/// `{ forest = … }`; the defaults are those of [`Forest::for_nodes`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForestFile {
    nodes: usize,
    per_home: Option<usize>,
    per_middle: Option<usize>,
    roots: Option<usize>,
    area: Option<usize>,
    node_rate: Option<Rate>,
    node_delay: Option<DurationText>,
    home_rate: Option<Rate>,
    home_delay: Option<DurationText>,
    middle_rate: Option<Rate>,
    middle_delay: Option<DurationText>,
    root_rate: Option<Rate>,
    root_delay: Option<DurationText>,
}

/// `topology` as a table: its source, and changes, which [`apply`](roost_topology::file::changes::apply) reads.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopologyTable {
    file: Option<PathBuf>,
    star: Option<StarFile>,
    tree: Option<TreeFile>,
    forest: Option<ForestFile>,
    #[serde(rename = "host")]
    _host: Option<IgnoredAny>,
    #[serde(rename = "link")]
    _link: Option<IgnoredAny>,
    #[serde(rename = "lan")]
    _lan: Option<IgnoredAny>,
    #[serde(rename = "radio")]
    _radio: Option<IgnoredAny>,
    #[serde(rename = "routing")]
    _routing: Option<IgnoredAny>,
}

impl TopologyTable {
    fn source<E: de::Error>(self) -> Result<TopologySource, E> {
        let Self { file, star, tree, forest, .. } = self;
        let tree = tree.map(|tree| tree.tree().map_err(E::custom)).transpose()?;
        let sources = [
            file.map(TopologySource::File),
            star.map(|star| TopologySource::Star(star.star())),
            tree.map(TopologySource::Tree),
            forest.map(|forest| TopologySource::Forest(forest.forest())),
        ];
        match <[TopologySource; 1]>::try_from(sources.into_iter().flatten().collect::<Vec<_>>()) {
            Ok([source]) => Ok(source),
            Err(_) => Err(E::custom("it has one of file, star, tree or forest")),
        }
    }
}

impl ForestFile {
    fn forest(&self) -> Forest {
        let usual = Forest::for_nodes(self.nodes);
        Forest {
            per_home: self.per_home.unwrap_or(usual.per_home),
            per_middle: self.per_middle.unwrap_or(usual.per_middle),
            roots: self.roots.unwrap_or(usual.roots),
            area: self.area.unwrap_or(usual.area),
            node: legs(usual.node, self.node_rate, self.node_delay),
            home: legs(usual.home, self.home_rate, self.home_delay),
            middle: legs(usual.middle, self.middle_rate, self.middle_delay),
            root: legs(usual.root, self.root_rate, self.root_delay),
            ..usual
        }
    }
}

impl StarFile {
    fn star(&self) -> Star {
        let published = Star::published(self.nodes);
        let node = legs(published.node, self.rate, self.delay);
        // The server has the links of the other hosts, but is farther away.
        let server = LegParameters { rate: node.rate, ..published.server };
        Star { node, server: legs(server, self.server_rate, self.server_delay), ..published }
    }
}

impl TreeFile {
    fn tree(&self) -> Result<Tree, GenerateError> {
        let TreeShape { x45, tactical, .. } = TreeShape::inferred(self.nodes);
        let (x45, tactical) = (self.x45.unwrap_or(x45), self.tactical.unwrap_or(tactical));
        let rest = self.nodes.saturating_sub(x45 + tactical);
        let shape = TreeShape { x45, tactical, low: self.low.unwrap_or(rest) };
        if shape.nodes() != self.nodes {
            let TreeShape { x45, tactical, low } = shape;
            return Err(GenerateError::Sum { nodes: self.nodes, x45, tactical, low });
        }
        let published = Tree::published(shape);
        Ok(Tree {
            shape,
            x45: legs(published.x45, self.x45_rate, self.x45_delay),
            tactical: legs(published.tactical, self.tactical_rate, self.tactical_delay),
            low: legs(published.low, self.low_rate, self.low_delay),
            server: legs(published.server, self.server_rate, self.server_delay),
        })
    }
}

fn legs(usual: LegParameters, rate: Option<Rate>, delay: Option<DurationText>) -> LegParameters {
    LegParameters { rate: rate.unwrap_or(usual.rate), delay: delay.map_or(usual.delay, |delay| delay.0) }
}

impl<'de> Deserialize<'de> for TopologySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TopologySourceVisitor)
    }
}

struct TopologySourceVisitor;

impl<'de> Visitor<'de> for TopologySourceVisitor {
    type Value = TopologySource;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the path of a topology file, { star = { nodes = 11 } }, { tree = { nodes = 31 } } or { forest = { nodes = 1000 } }",
        )
    }

    fn visit_str<E: de::Error>(self, path: &str) -> Result<TopologySource, E> {
        Ok(TopologySource::File(PathBuf::from(path)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TopologySource, A::Error> {
        TopologyTable::deserialize(de::value::MapAccessDeserializer::new(map))?.source()
    }
}
