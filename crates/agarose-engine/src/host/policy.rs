//! The rules of a daemon: what cells may ask for, read from a file in TOML.
//!
//! ```toml
//! [ask]
//! expires = "15m"        # how long somebody who is asked may take; then it is a no
//!
//! [[rule]]
//! method = "bash"        # a name, or a pattern such as `*_file`
//! match = "git *"        # of the command, path, code or address; absent means any
//! session = "work-*"     # absent means any
//! decision = "allow"     # allow, ask or deny
//! reason = "git is fine" # told to the cell, and written down
//! ```
//!
//! A rule that denies vetoes. Of the others the most specific wins: that of a session before one of all,
//! a literal before a pattern, the longer pattern before the shorter, the later before the earlier. Where no
//! rule speaks, the method's default does.

use std::path::{Path, PathBuf};

use agarose_core::{Millis, host_call::Decision};
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;

/// What is to happen to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may be done.
    Allow,
    /// Somebody is asked.
    Ask,
    /// It may not be done.
    Deny,
}

/// Why a file is no policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It cannot be read.
    #[error("the policy {path} cannot be read", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML, or says something that is not known.
    #[error("the policy {path} does not make sense", path = path.display())]
    Parse {
        /// Which file.
        path: PathBuf,
        /// What and where.
        source: Box<toml::de::Error>,
    },
    /// A pattern is none.
    #[error("rule {number} of the policy {path} has a {field} that is not a pattern", path = path.display())]
    Pattern {
        /// Which file.
        path: PathBuf,
        /// The how-manieth rule.
        number: usize,
        /// Which field.
        field: &'static str,
        /// Why.
        source: globset::Error,
    },
    /// A duration is none.
    #[error("ask.expires of the policy {path} is not a duration such as 15m or 90s: {text:?}", path = path.display())]
    Duration {
        /// Which file.
        path: PathBuf,
        /// What it says.
        text: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    ask: Asking,
    #[serde(default)]
    rule: Vec<Written>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asking {
    expires: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    method: String,
    r#match: Option<String>,
    session: Option<String>,
    decision: Verdict,
    reason: Option<String>,
}

#[derive(Clone, Debug)]
struct Rule {
    method: Pattern,
    subject: Option<Pattern>,
    session: Option<Pattern>,
    verdict: Verdict,
    /// What people are told of it.
    name: String,
}

#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    matcher: GlobMatcher,
}

impl Pattern {
    fn new(text: &str) -> Result<Self, globset::Error> {
        let glob = GlobBuilder::new(text).literal_separator(false).backslash_escape(true).build()?;
        Ok(Self { text: text.to_owned(), matcher: glob.compile_matcher() })
    }

    /// A text that is exactly what is written is meant, whatever its characters mean in a pattern.
    fn fits(&self, text: &str) -> bool {
        self.text == text || self.matcher.is_match(text)
    }

    fn exactness(&self, text: &str) -> (bool, usize) {
        (self.text == text, self.text.len())
    }
}

/// The rules of a daemon.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    expires: Millis,
    attended: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self { rules: Vec::new(), expires: Millis::seconds(900), attended: true }
    }
}

impl Policy {
    /// Reads the rules of a file.
    ///
    /// # Errors
    /// What does not make sense, and where.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let owned = || path.to_path_buf();
        let text =
            std::fs::read_to_string(path).map_err(|source| PolicyError::Read { path: owned(), source })?;
        let file: File = toml::from_str(&text)
            .map_err(|source| PolicyError::Parse { path: owned(), source: Box::new(source) })?;
        let mut policy = Self::default();
        if let Some(text) = file.ask.expires {
            policy.expires = duration(&text).ok_or_else(|| PolicyError::Duration { path: owned(), text })?;
        }
        for (index, written) in file.rule.into_iter().enumerate() {
            let number = index + 1;
            let pattern = |field, text: &str| {
                Pattern::new(text).map_err(|source| PolicyError::Pattern {
                    path: owned(),
                    number,
                    field,
                    source,
                })
            };
            let reason = written.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            policy.rules.push(Rule {
                method: pattern("method", &written.method)?,
                subject: written.r#match.as_deref().map(|text| pattern("match", text)).transpose()?,
                session: written.session.as_deref().map(|text| pattern("session", text)).transpose()?,
                verdict: written.decision,
                name: format!("rule {number} of the policy{reason}"),
            });
        }
        Ok(policy)
    }

    /// The same rules where nobody is there who could be asked: asking is a no.
    #[must_use]
    pub fn unattended(mut self) -> Self {
        self.attended = false;
        self
    }

    /// How long somebody who is asked may take.
    pub(crate) const fn expires(&self) -> Millis {
        self.expires
    }

    /// What the rules say of a call, and else its method's default.
    pub(crate) fn decide(&self, session: &str, method: &str, subject: &str, default: Verdict) -> Decision {
        let applies = |rule: &&Rule| {
            rule.method.fits(method)
                && rule.subject.as_ref().is_none_or(|pattern| pattern.fits(subject))
                && rule.session.as_ref().is_none_or(|pattern| pattern.fits(session))
        };
        let applying = || self.rules.iter().filter(applies);
        if let Some(veto) = applying().find(|rule| rule.verdict == Verdict::Deny) {
            return Decision::Deny { rule: veto.name.clone() };
        }
        let weight = |rule: &&Rule| {
            let of =
                |pattern: &Option<Pattern>, text| pattern.as_ref().map(|pattern| pattern.exactness(text));
            (of(&rule.session, session), of(&rule.subject, subject), rule.method.exactness(method))
        };
        // The last of equals wins, as `max_by_key` has it.
        let chosen = applying().max_by_key(weight);
        let rule = chosen.map(|rule| rule.name.clone()).unwrap_or_default();
        match chosen.map_or(default, |rule| rule.verdict) {
            Verdict::Allow => Decision::Allow { rule },
            Verdict::Ask if self.attended => Decision::Ask { rule },
            Verdict::Ask => Decision::Deny { rule: "nobody is there who could be asked".to_owned() },
            Verdict::Deny => Decision::Deny { rule },
        }
    }
}

/// `15m`, `90s`, `250ms`, `2h`.
fn duration(text: &str) -> Option<Millis> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(at);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).map(Millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Policy::read(file.path()).unwrap()
    }

    fn word(policy: &Policy, session: &str, subject: &str) -> &'static str {
        match policy.decide(session, "bash", subject, Verdict::Ask) {
            Decision::Allow { .. } => "allow",
            Decision::Ask { .. } => "ask",
            Decision::Deny { .. } => "deny",
        }
    }

    #[test]
    fn a_veto_beats_any_allowance_and_the_most_specific_of_the_rest_wins() {
        let policy = policy(
            r#"
            [[rule]]
            method = "*"
            decision = "ask"
            [[rule]]
            method = "bash"
            match = "git *"
            decision = "allow"
            [[rule]]
            method = "bash"
            match = "git push*"
            decision = "deny"
            reason = "pushing is for people"
            [[rule]]
            method = "bash"
            session = "trusted-*"
            decision = "allow"
            [[rule]]
            method = "bash"
            match = "echo [x]"
            decision = "allow"
            "#,
        );
        assert_eq!(word(&policy, "w", "ls"), "ask");
        assert_eq!(word(&policy, "w", "git status"), "allow");
        assert_eq!(word(&policy, "trusted-1", "git push origin"), "deny");
        assert_eq!(word(&policy, "trusted-1", "ls"), "allow");
        // A literal with characters of patterns means itself.
        assert_eq!(word(&policy, "w", "echo [x]"), "allow");
        let Decision::Deny { rule } = policy.decide("w", "bash", "git push", Verdict::Ask) else { panic!() };
        assert_eq!(rule, "rule 3 of the policy: pushing is for people");
    }

    #[test]
    fn where_nobody_can_answer_asking_is_a_no() {
        let unattended = Policy::default().unattended();
        assert_eq!(word(&unattended, "w", "ls"), "deny");
        assert_eq!(word(&Policy::default(), "w", "ls"), "ask");
    }

    #[test]
    fn a_policy_that_makes_no_sense_says_what_and_where() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, expected) in [
            ("[[rule]]\nmethod = \"bash\"\ndecision = \"maybe\"", "does not make sense"),
            ("[[rule]]\nmethod = \"b[\"\ndecision = \"deny\"", "rule 1"),
            ("[ask]\nexpires = \"soon\"", "not a duration"),
            ("[[rules]]\n", "does not make sense"),
        ] {
            std::fs::write(file.path(), text).unwrap();
            let error = Policy::read(file.path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
