//! Python's packages.

mod builtins;
mod data;
mod methods;
mod numpy;
mod plotting;
mod standard;

use std::sync::OnceLock;

use super::{LibraryCall, Tables};

/// Package and table.
pub(crate) const PACKAGES: &[(&str, &str)] = &[
    ("builtins", builtins::TABLE),
    ("", standard::TABLE),
    ("numpy", numpy::TABLE),
    ("pandas", data::PANDAS),
    ("", data::OTHERS),
    ("", plotting::TABLE),
    ("method", methods::TABLE),
];

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| Tables::of(PACKAGES))
}

/// The line for a function by its full name (`numpy.random.seed`, `builtins.len`).
pub(crate) fn function(name: &str) -> Option<&'static LibraryCall> {
    tables().find(name)
}

/// The line for a method that is called so on whatever has it.
pub(crate) fn method(name: &str) -> Option<&'static LibraryCall> {
    static METHODS: OnceLock<std::collections::HashMap<&'static str, LibraryCall>> = OnceLock::new();
    let methods = METHODS.get_or_init(|| {
        let mut map = std::collections::HashMap::new();
        for line in methods::TABLE.lines() {
            if let Some((names, words)) = line.split_once(':')
                && !names.starts_with('#')
            {
                let call = LibraryCall::parse(words);
                map.extend(names.split_whitespace().map(|name| (name, call.clone())));
            }
        }
        map
    });
    methods.get(name)
}

/// Whether Python itself defines the name.
pub(crate) fn is_builtin(name: &str) -> bool {
    builtins::NAMES.binary_search(&name).is_ok()
}

/// The module that everybody means by this name.
pub(crate) fn conventional_module(name: &str) -> Option<&'static str> {
    standard::CONVENTIONS
        .binary_search_by_key(&name, |(short, _)| short)
        .ok()
        .map(|at| standard::CONVENTIONS[at].1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn lists_that_are_searched_are_sorted() {
        assert!(super::builtins::NAMES.is_sorted());
        assert!(super::standard::CONVENTIONS.is_sorted());
    }

    #[test]
    fn the_longest_line_wins() {
        assert!(super::function("numpy.copyto").is_some_and(|call| call.mutates == 1));
        assert!(super::function("numpy.random.normal").is_some_and(|call| call.channels.len() == 2));
        assert!(super::function("numpy.linalg.inv").is_some_and(|call| call.mutates == 0));
        assert!(super::function("nobody.knows").is_none());
    }
}
