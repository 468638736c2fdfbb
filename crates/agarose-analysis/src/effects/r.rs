//! R's packages.

mod base;
mod names;
mod packages;

use std::collections::HashMap;
use std::sync::OnceLock;

use super::{LibraryCall, Tables};

/// Package and table.
pub(crate) const PACKAGES: &[(&str, &str)] = &[
    ("", base::TABLE),
    ("", packages::DPLYR),
    ("", packages::DATA_TABLE),
    ("", packages::GGPLOT2),
    ("", packages::OTHERS),
];

/// The line for a function by its name, whatever package it comes from.
pub(crate) fn function(name: &str) -> Option<&'static LibraryCall> {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| Tables::of(PACKAGES)).exact.get(name)
}

/// Whether R's default packages define the name.
pub(crate) fn is_builtin(name: &str) -> bool {
    static NAMES: OnceLock<HashMap<&'static str, ()>> = OnceLock::new();
    NAMES.get_or_init(|| names::NAMES.split_whitespace().map(|name| (name, ())).collect()).contains_key(name)
}

/// Whether the name is a function of the language or of a package in the tables.
pub(crate) fn is_known(name: &str) -> bool {
    is_builtin(name) || function(name).is_some()
}
