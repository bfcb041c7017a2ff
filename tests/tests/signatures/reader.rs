//! Reads the functions of crates and the calls that give them literals.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Expr, ExprCall, ExprMethodCall, FnArg, GenericArgument, Item, ItemFn, ItemImpl, ItemTrait, Lit, Macro,
    PathArguments, Signature, Token, TraitItemFn, Type,
};

use crate::product_code::drop_tests;

/// Types that hold what they are generic over, one value or many.
const WRAPPERS: [&str; 6] = ["Option", "Vec", "VecDeque", "Box", "Arc", "BTreeSet"];

#[derive(Default)]
pub(crate) struct Code {
    functions: Vec<Function>,
    /// Positions at which calls give a literal `bool`, and the first such call.
    literals: BTreeMap<(Callee, usize), String>,
    file: String,
    /// The type whose `impl` is being read.
    owner: Option<String>,
}

struct Function {
    callee: Callee,
    place: String,
    parameters: Vec<Parameter>,
}

/// A function as a call tells it from others: by its name, and by the number of its arguments without `self`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Callee {
    kind: Kind,
    name: String,
    arguments: usize,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Method,
    Associated(String),
    Free,
}

#[derive(PartialEq, Eq)]
enum Parameter {
    Bool,
    Tuple,
    Other,
}

/// Reads the files of a crate's library and program along their `mod` lines.
pub(crate) fn read_crate(root: &Path, folder: &Path, code: &mut Code) {
    for file in ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file)).iter().filter(|file| file.exists()) {
        read_file(root, file, &folder.join("src"), code);
    }
}

/// Reads a file, and those of its modules, which are in a folder.
fn read_file(root: &Path, file: &Path, folder: &Path, code: &mut Code) {
    let name = file.strip_prefix(root).unwrap().display().to_string();
    let items = code.read(&name, &fs::read_to_string(file).unwrap());
    read_modules(root, &items, folder, code);
}

fn read_modules(root: &Path, items: &[Item], folder: &Path, code: &mut Code) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let inner = folder.join(module.ident.to_string());
        if let Some((_, items)) = &module.content {
            read_modules(root, items, &inner, code);
        } else {
            let files = [inner.with_extension("rs"), inner.join("mod.rs")];
            read_file(root, files.iter().find(|file| file.exists()).unwrap(), &inner, code);
        }
    }
}

impl Code {
    pub(crate) fn of_text(text: &str) -> Self {
        let mut code = Self::default();
        code.read("lib.rs", text);
        code
    }

    fn read(&mut self, file: &str, text: &str) -> Vec<Item> {
        let mut parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        drop_tests(&mut parsed.items);
        file.clone_into(&mut self.file);
        self.visit_file(&parsed);
        parsed.items
    }

    pub(crate) fn tuples(&self) -> Vec<String> {
        let with_tuple = |function: &&Function| function.parameters.contains(&Parameter::Tuple);
        self.functions.iter().filter(with_tuple).map(|function| function.place.clone()).collect()
    }

    /// The functions that take several flags, or one that some call gives a literal.
    pub(crate) fn flags(&self) -> Vec<String> {
        self.functions.iter().filter_map(|function| self.describe_flags(function)).collect()
    }

    fn describe_flags(&self, function: &Function) -> Option<String> {
        let flags = || (0..).zip(&function.parameters).filter(|(_, parameter)| **parameter == Parameter::Bool);
        let call = flags().find_map(|(position, _)| self.literals.get(&(function.callee.clone(), position)));
        match call {
            Some(call) => Some(format!("{} ({call})", function.place)),
            None => (flags().count() > 1).then(|| function.place.clone()),
        }
    }

    fn add_function(&mut self, signature: &Signature) {
        let parameters: Vec<_> = signature
            .inputs
            .iter()
            .filter_map(|input| match input {
                FnArg::Typed(typed) => Some(parameter(&typed.ty)),
                FnArg::Receiver(_) => None,
            })
            .collect();
        let kind = match &self.owner {
            _ if signature.receiver().is_some() => Kind::Method,
            Some(owner) => Kind::Associated(owner.clone()),
            None => Kind::Free,
        };
        let name = signature.ident.to_string();
        let owned = self.owner.iter().map(|owner| format!("{owner}::")).collect::<String>();
        let place = format!("{}:{} {owned}{name}", self.file, signature.ident.span().start().line);
        let callee = Callee { kind, name, arguments: parameters.len() };
        self.functions.push(Function { callee, place, parameters });
    }

    fn add_call(&mut self, kind: Kind, name: String, arguments: &Punctuated<Expr, Token![,]>) {
        let callee = Callee { kind, name, arguments: arguments.len() };
        for (position, argument) in arguments.iter().enumerate() {
            if matches!(argument, Expr::Lit(literal) if matches!(literal.lit, Lit::Bool(_))) {
                let place = format!("{}:{}", self.file, argument.span().start().line);
                self.literals.entry((callee.clone(), position)).or_insert(place);
            }
        }
    }

    fn inside(&mut self, owner: Option<String>, read: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.owner, owner);
        read(self);
        self.owner = outer;
    }
}

impl<'ast> Visit<'ast> for Code {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.inside(None, |code| code.add_function(&item.sig));
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        self.inside(last_name(&item.self_ty), |code| {
            // A trait's own lines tell what its functions take.
            if item.trait_.is_none() {
                let functions = item.items.iter().filter_map(|item| match item {
                    syn::ImplItem::Fn(function) => Some(&function.sig),
                    _ => None,
                });
                functions.for_each(|signature| code.add_function(signature));
            }
            visit::visit_item_impl(code, item);
        });
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.inside(Some(item.ident.to_string()), |code| visit::visit_item_trait(code, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.add_function(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(function) = &*call.func {
            let names: Vec<_> = function.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            let (name, before) = names.split_last().unwrap();
            let kind = match before.last() {
                Some(owner) if owner == "Self" => Kind::Associated(self.owner.clone().unwrap_or_default()),
                Some(owner) if owner.starts_with(char::is_uppercase) => Kind::Associated(owner.clone()),
                _ => Kind::Free,
            };
            self.add_call(kind, name.clone(), &call.args);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.add_call(Kind::Method, call.method.to_string(), &call.args);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        if let Ok(arguments) = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated) {
            arguments.iter().for_each(|argument| visit::visit_expr(self, argument));
        }
    }
}

fn parameter(ty: &Type) -> Parameter {
    match ty {
        Type::Path(path) if path.path.is_ident("bool") => Parameter::Bool,
        _ if has_tuple(ty) => Parameter::Tuple,
        _ => Parameter::Other,
    }
}

fn has_tuple(ty: &Type) -> bool {
    match ty {
        Type::Tuple(tuple) => tuple.elems.len() > 1,
        Type::Reference(reference) => has_tuple(&reference.elem),
        Type::Slice(slice) => has_tuple(&slice.elem),
        Type::Array(array) => has_tuple(&array.elem),
        Type::Path(path) => path.path.segments.last().is_some_and(|last| match &last.arguments {
            PathArguments::AngleBracketed(inner) if WRAPPERS.iter().any(|wrapper| last.ident == wrapper) => {
                inner.args.iter().any(|inner| matches!(inner, GenericArgument::Type(inner) if has_tuple(inner)))
            }
            _ => false,
        }),
        _ => false,
    }
}

fn last_name(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    path.path.segments.last().map(|last| last.ident.to_string())
}
