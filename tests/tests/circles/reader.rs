//! Reads the modules of a crate from its files.

use std::collections::BTreeMap;

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

use crate::modules::{Mention, Module, Modules, Names};
use crate::product_code::{attributes_and_name, drop_tests};

/// The text of each file, by its path from the crate's `src`.
pub(crate) type Sources = BTreeMap<String, String>;

/// Reads from the root on, along the `mod` lines.
pub(crate) fn read_modules(sources: &Sources) -> Modules {
    let mut reader =
        Reader { sources, found: Modules::default(), module: Names::new(), folder: String::new(), blocks: 0 };
    reader.read_file("lib.rs");
    reader.found
}

struct Reader<'a> {
    sources: &'a Sources,
    found: Modules,
    /// The module that is being read, and the folder of its children.
    module: Names,
    folder: String,
    /// Blocks of functions around what is being read: their items are nobody else's.
    blocks: usize,
}

impl Reader<'_> {
    fn read_file(&mut self, file: &str) {
        let mut parsed = syn::parse_file(&self.sources[file]).unwrap_or_else(|error| panic!("{file}: {error}"));
        drop_tests(&mut parsed.items);
        self.read_module(file, &parsed.items);
    }

    fn read_module(&mut self, file: &str, items: &[Item]) {
        self.found.modules.insert(self.module.clone(), Module { file: file.to_owned(), ..Module::default() });
        items.iter().for_each(|item| self.visit_item(item));
    }

    fn current(&mut self) -> &mut Module {
        self.found.modules.get_mut(&self.module).unwrap()
    }

    fn mention(&mut self, names: &[&Ident]) {
        let line = names[0].span().start().line;
        let names = names.iter().map(ToString::to_string).collect();
        self.found.mentions.push(Mention { module: self.module.clone(), names, line });
    }

    /// Takes in what a `use` names, after this prefix.
    fn read_use<'t>(&mut self, tree: &'t UseTree, prefix: &[&'t Ident], is_reexport: bool) {
        let (ident, name) = match tree {
            UseTree::Path(path) => return self.read_use(&path.tree, &[prefix, &[&path.ident]].concat(), is_reexport),
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.read_use(tree, prefix, is_reexport));
            }
            UseTree::Glob(_) => (None, None),
            UseTree::Name(name) if name.ident == "self" => (None, prefix.last().copied()),
            UseTree::Name(name) => (Some(&name.ident), Some(&name.ident)),
            UseTree::Rename(rename) if rename.ident == "self" => (None, Some(&rename.rename)),
            UseTree::Rename(rename) => (Some(&rename.ident), Some(&rename.rename)),
        };
        let names = [prefix, ident.as_slice()].concat();
        if !is_reexport {
            self.mention(&names);
        }
        let path = names.iter().map(ToString::to_string).collect();
        match name {
            _ if self.blocks > 0 => {}
            Some(name) => drop(self.current().uses.insert(name.to_string(), path)),
            None => self.current().globs.push(path),
        }
    }

    /// Mentions the paths in a macro's input.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for tree in tokens {
            match tree {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.mention_path(&path);
                        path.clear();
                    }
                    path.push(ident);
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.mention_path(&path);
                    path.clear();
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.read_tokens(group.stream());
                    }
                }
            }
        }
        self.mention_path(&path);
    }

    /// A small name alone may be a variable: only a type's counts.
    fn mention_path(&mut self, path: &[Ident]) {
        let is_type = |name: &Ident| name.to_string().starts_with(char::is_uppercase);
        if path.len() > 1 || path.first().is_some_and(is_type) {
            self.mention(&path.iter().collect::<Vec<_>>());
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if let Some(name) = attributes_and_name(item).1.filter(|_| self.blocks == 0) {
            self.current().items.insert(name.to_string());
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let (module, folder) = (self.module.clone(), self.folder.clone());
        let name = item.ident.to_string();
        self.module.push(name.clone());
        self.folder = format!("{folder}{name}/");
        if let Some((_, items)) = &item.content {
            let file = self.found.modules[&module].file.clone();
            self.read_module(&file, items);
        } else {
            let files = [format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs")];
            let file = files.iter().find(|file| self.sources.contains_key(*file));
            self.read_file(file.unwrap_or_else(|| panic!("no file of the module {}", self.module.join("::"))));
        }
        (self.module, self.folder) = (module, folder);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.read_use(&item.tree, &[], !matches!(item.vis, Visibility::Inherited));
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.blocks += 1;
        visit::visit_block(self, block);
        self.blocks -= 1;
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mention_path(&path.segments.iter().map(|segment| segment.ident.clone()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        visit::visit_macro(self, call);
        self.read_tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}
