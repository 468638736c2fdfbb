//! What looks like a secret: files that are never read or written for a cell, and text that is never written down.

use std::sync::LazyLock;

use regex::Regex;

/// Names of files that hold credentials, by convention of the programs that have them.
const NAMES: [&str; 17] = [
    ".env",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    "credentials",
    "credentials.json",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "secrets.toml",
    "secrets.yaml",
    "secrets.json",
];
const ENDINGS: [&str; 6] = [".pem", ".key", ".p12", ".pfx", ".keystore", ".kdbx"];

/// Whether a file of this name is one that no rule opens.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.contains(&name.as_str())
        || name.strip_prefix(".env.").is_some_and(|rest| !matches!(rest, "example" | "sample" | "template"))
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// What follows a name that says secret, and tokens that say so themselves.
static SECRETS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?ix)
        ( [\w-]* (?: api[_-]?key | token | secret | passw(?:or)?d | authorization | credential ) [\w-]*
          ["']? \s* [:=]+ \s* (?: bearer \s+ )? ["']? ) [^\s"',;&]+
        | () \b (?: sk-[\w-]{16,} | gh[pousr]_\w{20,} | AKIA[0-9A-Z]{12,} | xox[abprs]-[\w-]{10,}
          | eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]* )
        "#,
    )
    .ok()
});

/// The text with what looks like a secret masked.
pub(crate) fn mask(text: &str) -> String {
    match &*SECRETS {
        Some(secrets) => secrets.replace_all(text, "${1}***").into_owned(),
        // A pattern that does not compile is caught by the test; nothing is shown then.
        None => "***".to_owned(),
    }
}

/// The first characters of a text, masked.
pub(crate) fn preview(text: &str, limit: usize) -> String {
    let masked = mask(text);
    match masked.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", &masked[..at]),
        None => masked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_masked_and_what_does_not_stays() {
        for (text, shown) in [
            (r#"{"api_key":"abc123","n":1}"#, r#"{"api_key":"***","n":1}"#),
            ("curl -H 'Authorization: Bearer abc.def' url", "curl -H 'Authorization: Bearer ***' url"),
            ("PASSWORD=hunter2 psql", "PASSWORD=*** psql"),
            ("sk-aaaaaaaaaaaaaaaaaaaa", "***"),
            ("the number of tokens is 7", "the number of tokens is 7"),
        ] {
            assert_eq!(mask(text), shown);
        }
    }

    #[test]
    fn files_of_credentials_are_known_by_their_names() {
        for name in [".env", ".env.production", "ID_RSA", "server.pem"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["environment.yml", ".env.example", "keyboard.txt", "id_rsa.pub"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
