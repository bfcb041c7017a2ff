//! Tells the code of tests from the product's. `signatures` reads sources with this file, too.

use proc_macro2::Ident;
use syn::punctuated::Punctuated;
use syn::{Attribute, ImplItem, Item, Meta, Token, TraitItem};

/// Drops the items that stand under a condition like `cfg(test)`.
pub(crate) fn drop_tests(items: &mut Vec<Item>) {
    items.retain(|item| !is_for_tests(attributes_and_name(item).0));
    for item in items {
        match item {
            Item::Mod(module) => module.content.iter_mut().for_each(|(_, items)| drop_tests(items)),
            Item::Impl(block) => block.items.retain(|item| match item {
                ImplItem::Const(item) => !is_for_tests(&item.attrs),
                ImplItem::Fn(item) => !is_for_tests(&item.attrs),
                _ => true,
            }),
            Item::Trait(item) => {
                item.items.retain(|item| !matches!(item, TraitItem::Fn(item) if is_for_tests(&item.attrs)));
            }
            _ => {}
        }
    }
}

pub(crate) fn attributes_and_name(item: &Item) -> (&[Attribute], Option<&Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Mod(item) => (&item.attrs, None),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}

pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    let mut conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    conditions.any(|attribute| attribute.parse_args::<Meta>().is_ok_and(|condition| !holds_without_tests(&condition)))
}

/// True if a condition can hold outside tests.
fn holds_without_tests(condition: &Meta) -> bool {
    let Meta::List(list) = condition else { return !condition.path().is_ident("test") };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default();
    match () {
        () if list.path.is_ident("not") => true,
        () if list.path.is_ident("any") => parts.iter().any(holds_without_tests),
        () => parts.iter().all(holds_without_tests),
    }
}
