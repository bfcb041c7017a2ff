//! Reads the calls of `sleep` in code of tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprCall, Item, ItemFn, Macro, Meta};

use crate::product_code::{attributes_and_name, is_for_tests};

/// The calls in a part of the code, by its files.
#[derive(Default)]
pub(crate) struct Sleeps {
    counts: BTreeMap<String, usize>,
    file: String,
    is_test: bool,
}

impl Sleeps {
    pub(crate) fn counts(&self) -> Vec<(&str, usize)> {
        self.counts.iter().map(|(file, count)| (file.as_str(), *count)).collect()
    }

    /// Reads a crate: all of its tests, and those beside its product code.
    pub(crate) fn read_crate(&mut self, root: &Path, folder: &Path) {
        self.read_folder(root, &folder.join("tests"), true);
        // The helpers of the end-to-end tests are no product.
        self.read_folder(root, &folder.join("src"), folder.ends_with("tests"));
    }

    fn read_folder(&mut self, root: &Path, folder: &Path, is_test: bool) {
        for path in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                self.read_folder(root, &path, is_test || path.ends_with("tests"));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                self.read(&name, &fs::read_to_string(&path).unwrap(), is_test || path.ends_with("tests.rs"));
            }
        }
    }

    pub(crate) fn read(&mut self, file: &str, text: &str, is_test: bool) {
        if !text.contains("sleep") {
            return;
        }
        let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        file.clone_into(&mut self.file);
        self.is_test = is_test;
        self.visit_file(&parsed);
    }

    fn add(&mut self, calls: usize) {
        if self.is_test && calls > 0 {
            *self.counts.entry(self.file.clone()).or_default() += calls;
        }
    }
}

impl<'ast> Visit<'ast> for Sleeps {
    fn visit_item(&mut self, item: &'ast Item) {
        let outer = self.is_test;
        self.is_test |= is_for_tests(attributes_and_name(item).0);
        visit::visit_item(self, item);
        self.is_test = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !item.attrs.iter().any(has_paused_time) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        let name = if let Expr::Path(function) = &*call.func { function.path.segments.last() } else { None };
        self.add(usize::from(name.is_some_and(|name| name.ident == "sleep")));
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.add(calls_in(call.tokens.clone()));
    }
}

fn has_paused_time(attribute: &Attribute) -> bool {
    matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string().contains("start_paused = true"))
}

/// The calls among the tokens of a macro, whose grammar only the macro knows.
fn calls_in(tokens: TokenStream) -> usize {
    let mut is_named = false;
    let mut calls = 0;
    for token in tokens {
        calls += usize::from(is_named && matches!(token, TokenTree::Group(_)));
        is_named = matches!(&token, TokenTree::Ident(name) if name == "sleep");
        if let TokenTree::Group(group) = token {
            calls += calls_in(group.stream());
        }
    }
    calls
}
