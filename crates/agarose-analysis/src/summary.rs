//! Facts as tools read them: plain lists of names, and reasons with their places.

use serde::{Deserialize, Serialize};

use crate::facts::{Access, Certainty, Channel, Code, Effect, Facts, Language, Scope, Via};

/// What a cell reads, writes and deletes, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The analysis that made the facts.
    pub analyser: String,
    /// The language.
    pub language: Language,
    /// SHA-256 of the source, hexadecimal.
    pub digest: String,
    /// Names whose earlier value matters, those of functions that the cell only defines among them. Names
    /// of the language itself are left out.
    pub reads: Vec<String>,
    /// Names that it binds or whose values it may change.
    pub writes: Vec<String>,
    /// Names that it unbinds.
    pub deletes: Vec<String>,
    /// What is not known.
    pub uncertain: Vec<Reason>,
    /// Modules and packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<String>,
    /// Files that the source names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileHint>,
    /// State outside of names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelHint>,
}

/// One thing that is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Why.
    pub reason: Code,
    /// The first byte of the place.
    pub start: u32,
    /// The byte after it.
    pub end: u32,
    /// The word in question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// What it may do to names: `reads`, `writes`, `deletes`, `mutates`.
    pub effect: Vec<String>,
    /// The names that it may touch; absent for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
}

/// A file that the source names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileHint {
    /// As written; absent when it is computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How.
    pub access: Access,
}

/// A use of state outside of names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChannelHint {
    /// Which.
    pub channel: Channel,
    /// How.
    pub access: Access,
}

impl From<&Facts> for Summary {
    fn from(facts: &Facts) -> Self {
        let reads = facts.reads.iter().filter(|(_, read)| {
            // What is only possible counts where it happens now.
            !read.builtin && (read.certainty > Certainty::Possible || read.via != Via::Deferred)
        });
        let mut imports: Vec<String> = facts.imports.iter().map(|import| import.module.clone()).collect();
        imports.sort();
        imports.dedup();
        let mut files: Vec<FileHint> =
            facts.files().map(|event| FileHint { path: event.key.clone(), access: event.access }).collect();
        files.sort();
        files.dedup();
        let mut channels: Vec<ChannelHint> = facts
            .channels
            .iter()
            .map(|event| ChannelHint { channel: event.channel, access: event.access })
            .collect();
        channels.sort();
        channels.dedup();
        Self {
            analyser: facts.analyser.clone(),
            language: facts.language,
            digest: facts.digest.clone(),
            reads: reads.map(|(name, _)| name.clone()).collect(),
            writes: facts.writes.keys().cloned().collect(),
            deletes: facts.deletes.keys().cloned().collect(),
            uncertain: facts.uncertain.iter().map(Reason::from).collect(),
            imports,
            files,
            channels,
        }
    }
}

impl From<&crate::facts::Uncertain> for Reason {
    fn from(reason: &crate::facts::Uncertain) -> Self {
        let effects = [
            (Effect::READS, "reads"),
            (Effect::WRITES, "writes"),
            (Effect::DELETES, "deletes"),
            (Effect::MUTATES, "mutates"),
        ];
        Self {
            reason: reason.code,
            start: reason.span.start,
            end: reason.span.end,
            what: reason.what.clone(),
            effect: effects
                .iter()
                .filter(|(effect, _)| reason.effect.0 & effect.0 != 0)
                .map(|(_, word)| (*word).to_owned())
                .collect(),
            names: match &reason.scope {
                Scope::All => None,
                Scope::Names(names) => Some(names.iter().cloned().collect()),
                Scope::Pattern(pattern) => Some(vec![pattern.clone()]),
            },
        }
    }
}
