//! The modules of a crate, and the circles in which their files import each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The longest chain of re-exports that is followed; what is longer re-exports itself.
const MAX_REEXPORTS: usize = 16;

/// A module's path from the root, or a name's as it is written.
pub(crate) type Names = Vec<String>;

/// A module, in a file or inside another module.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) file: String,
    pub(crate) items: BTreeSet<String>,
    /// Names that `use` brings in or re-exports, and the paths that they stand for.
    pub(crate) uses: BTreeMap<String, Names>,
    pub(crate) globs: Vec<Names>,
}

/// A name of an item, in the module where it is used.
pub(crate) struct Mention {
    pub(crate) module: Names,
    pub(crate) names: Names,
    pub(crate) line: usize,
}

/// The files that each file imports, and its first mention of each.
type Imports<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Mention>>;

/// The modules of a crate, and the names that they mention.
#[derive(Default)]
pub(crate) struct Modules {
    pub(crate) modules: BTreeMap<Names, Module>,
    pub(crate) mentions: Vec<Mention>,
}

impl Modules {
    /// The circles of files, each with the lines that import.
    pub(crate) fn circles(&self) -> Vec<String> {
        let imports = self.imports();
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            imports.keys().map(|file| (*file, reachable(&imports, file))).collect();
        let mut circles = BTreeSet::new();
        for (file, after) in &reached {
            let circle = after.iter().filter(|other| reached.get(*other).is_some_and(|back| back.contains(file)));
            circles.insert(circle.copied().collect::<BTreeSet<&str>>());
        }
        circles.into_iter().filter(|circle| !circle.is_empty()).map(|circle| describe(&imports, &circle)).collect()
    }

    fn imports(&self) -> Imports<'_> {
        let mut imports = Imports::new();
        for mention in &self.mentions {
            let Some(defined) = self.resolve(&mention.module, &mention.names, 0) else { continue };
            let (from, to) = (&*self.modules[&mention.module].file, &*self.modules[&defined].file);
            if from != to {
                imports.entry(from).or_default().entry(to).or_insert(mention);
            }
        }
        imports
    }

    /// The module that defines what these names, in this module, stand for; `None` if another crate does.
    fn resolve(&self, module: &[String], names: &[String], depth: usize) -> Option<Names> {
        match names {
            _ if depth > MAX_REEXPORTS => None,
            [first, rest @ ..] if first == "crate" => self.walk(&[], rest, depth),
            [first, rest @ ..] if first == "self" => self.resolve(module, rest, depth),
            [first, rest @ ..] if first == "super" => self.resolve(module.split_last()?.1, rest, depth),
            _ => self.walk(module, names, depth),
        }
    }

    fn walk(&self, module: &[String], names: &[String], depth: usize) -> Option<Names> {
        let known = self.modules.get(module)?;
        let [first, rest @ ..] = names else { return Some(module.to_vec()) };
        let child = [module, std::slice::from_ref(first)].concat();
        let is_item = known.items.contains(first);
        if self.modules.contains_key(&child) && !(is_item && rest.is_empty()) {
            return self.resolve(&child, rest, depth);
        }
        if is_item {
            return Some(module.to_vec());
        }
        if let Some(path) = known.uses.get(first) {
            return self.resolve(module, &[path, rest].concat(), depth + 1);
        }
        known.globs.iter().find_map(|glob| self.resolve(module, &[glob, names].concat(), depth + 1))
    }
}

fn reachable<'a>(imports: &Imports<'a>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        let after = imports.get(file).into_iter().flat_map(BTreeMap::keys);
        next.extend(after.copied().filter(|file| reached.insert(*file)));
    }
    reached
}

fn describe(imports: &Imports<'_>, circle: &BTreeSet<&str>) -> String {
    let mut text = format!("a circle of {} files:\n", circle.len());
    for file in circle {
        for (other, mention) in imports[file].iter().filter(|(other, _)| circle.contains(*other)) {
            writeln!(text, "  {file}:{} imports {other} ({})", mention.line, mention.names.join("::")).unwrap();
        }
    }
    text
}
