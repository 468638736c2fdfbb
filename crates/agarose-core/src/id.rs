//! Names of things. Each is a type of its own, parsed once at the edge.

use alloc::{format, string::String};
use core::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Why a text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing but white space.
    #[error("{field} is empty")]
    Blank {
        /// Which field.
        field: &'static str,
    },
    /// Longer than a name may be.
    #[error("{field} is {length} bytes long, and {limit} are allowed")]
    TooLong {
        /// Which field.
        field: &'static str,
        /// How long it is, in bytes.
        length: usize,
        /// How long it may be, in bytes.
        limit: usize,
    },
    /// Holds a character that a name may not hold.
    #[error("{field} holds {character:?}, which is not allowed there")]
    Character {
        /// Which field.
        field: &'static str,
        /// The first offending character.
        character: char,
    },
    /// Not of the form that this kind of id has.
    #[error("{text:?} is not {what}")]
    Form {
        /// What was given.
        text: String,
        /// What was wanted.
        what: &'static str,
    },
}

/// The longest name, in bytes: file names made from names must fit in 255.
pub const NAME_LIMIT: usize = 128;

fn name(field: &'static str, text: &str) -> Result<String, IdError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(IdError::Blank { field });
    }
    if text.len() > NAME_LIMIT {
        return Err(IdError::TooLong { field, length: text.len(), limit: NAME_LIMIT });
    }
    if let Some(character) = text.chars().find(|c| c.is_control() || *c == '\u{feff}') {
        return Err(IdError::Character { field, character });
    }
    Ok(String::from(text))
}

/// The name of a session: chosen by its users, one FIFO of tickets each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(String);

impl SessionId {
    /// Parses a session name: not blank, at most [`NAME_LIMIT`] bytes, no control characters.
    ///
    /// # Errors
    /// Says which rule the text breaks.
    pub fn new(text: &str) -> Result<Self, IdError> {
        name("session", text).map(Self)
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One request for execution, unique for ever in a data directory: 48 bits of time, 80 of
/// randomness, written as 26 characters of Crockford's base 32 (as a ULID is).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TicketId(pub u128);

const CROCKFORD: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TICKET_DIGITS: u32 = 26;

impl fmt::Display for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for digit in (0..TICKET_DIGITS).rev() {
            let value = (self.0 >> digit.saturating_mul(5)) & 31;
            let index = usize::try_from(value).unwrap_or(0);
            let byte = CROCKFORD.get(index).copied().unwrap_or(b'0');
            write!(f, "{}", char::from(byte))?;
        }
        Ok(())
    }
}

impl fmt::Debug for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TicketId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::Form { text: format!("{text:.64}"), what: "a ticket id" };
        if text.len() != 26 || !text.is_ascii() {
            return Err(wrong());
        }
        let mut value: u128 = 0;
        for byte in text.bytes() {
            let byte = match byte.to_ascii_lowercase() {
                b'o' => b'0',
                b'i' | b'l' => b'1',
                other => other,
            };
            let digit = CROCKFORD.iter().position(|c| *c == byte).ok_or_else(wrong)?;
            let digit = u128::try_from(digit).map_err(|_| wrong())?;
            value = value.checked_mul(32).and_then(|v| v.checked_add(digit)).ok_or_else(wrong)?;
        }
        Ok(Self(value))
    }
}

/// Which interpreter a cell is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// CPython.
    Python,
    /// GNU R.
    R,
}

impl Language {
    /// The word used on the wire, in the log and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::R => "r",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Language {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text.trim().to_ascii_lowercase().as_str() {
            "python" | "py" => Ok(Self::Python),
            "r" => Ok(Self::R),
            _ => Err(IdError::Form { text: format!("{text:.64}"), what: "a language (python or r)" }),
        }
    }
}

/// What sort of writer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerKind {
    /// A program that acts for somebody.
    Agent,
    /// A person at a prompt.
    UserRepl,
    /// Start, restart and stop of a kernel.
    Lifecycle,
    /// Replay after a reset.
    Recovery,
    /// Agarose itself.
    System,
}

impl OwnerKind {
    /// The word used on the wire, in the log and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::UserRepl => "user_repl",
            Self::Lifecycle => "lifecycle",
            Self::Recovery => "recovery",
            Self::System => "system",
        }
    }
}

/// Who asks: a kind and a name of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// What sort of writer.
    pub kind: OwnerKind,
    /// Which one.
    id: String,
}

impl Owner {
    /// An owner; the name is not blank and has at most [`NAME_LIMIT`] bytes.
    ///
    /// # Errors
    /// Says which rule the name breaks.
    pub fn new(kind: OwnerKind, id: &str) -> Result<Self, IdError> {
        Ok(Self { kind, id: name("owner id", id)? })
    }

    /// Agarose itself.
    #[must_use]
    pub fn system() -> Self {
        Self { kind: OwnerKind::System, id: String::from("agarose") }
    }

    /// The rule that stops kernels that nobody uses.
    #[must_use]
    pub fn idle() -> Self {
        Self { kind: OwnerKind::Lifecycle, id: String::from("idle") }
    }

    /// Which one of its kind.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.as_str(), self.id)
    }
}

impl FromStr for Owner {
    type Err = IdError;

    /// Reads `KIND:ID`.
    fn from_str(text: &str) -> Result<Self, IdError> {
        let what = "an owner (KIND:ID with KIND agent, user_repl, lifecycle, recovery or system)";
        let wrong = || IdError::Form { text: format!("{text:.160}"), what };
        let (kind, id) = text.split_once(':').ok_or_else(wrong)?;
        let kind = match kind.trim() {
            "" => {
                return Err(IdError::Blank { field: "owner kind" });
            }
            "agent" => OwnerKind::Agent,
            "user_repl" => OwnerKind::UserRepl,
            "lifecycle" => OwnerKind::Lifecycle,
            "recovery" => OwnerKind::Recovery,
            "system" => OwnerKind::System,
            _ => return Err(wrong()),
        };
        Self::new(kind, id)
    }
}

/// One life of a kernel. Counted over the whole data directory, so a number is never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.0)
    }
}

/// The right to touch one execution in one kernel. Everything that reaches a process carries one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// Which life of the kernel.
    pub generation: Generation,
    /// Which execution.
    pub ticket: TicketId,
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.generation, self.ticket)
    }
}

/// Bytes by their BLAKE3 hash and length; where they lie is the journal's business.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    /// BLAKE3 of the bytes.
    pub hash: [u8; 32],
    /// How many bytes.
    pub length: u64,
}

impl fmt::Display for BlobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.hash {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for BlobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}+{}", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_ticket_id_reads_back_as_it_was_written(value: u128) {
            let id = TicketId(value);
            prop_assert_eq!(id.to_string().parse::<TicketId>(), Ok(id));
        }

        #[test]
        fn any_text_is_a_ticket_id_or_a_clear_refusal(text in ".{0,40}") {
            let _ = text.parse::<TicketId>();
        }
    }

    #[test]
    fn blank_identity_is_refused_with_the_name_of_the_field() {
        assert_eq!(SessionId::new("  "), Err(IdError::Blank { field: "session" }));
        assert_eq!("agent: ".parse::<Owner>(), Err(IdError::Blank { field: "owner id" }));
        assert_eq!(":x".parse::<Owner>(), Err(IdError::Blank { field: "owner kind" }));
    }

    #[test]
    fn an_owner_reads_back_as_it_was_written() {
        let owner: Owner = "user_repl:ada:lovelace".parse().unwrap();
        assert_eq!(owner.to_string(), "user_repl:ada:lovelace");
    }
}
