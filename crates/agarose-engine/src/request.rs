//! What a caller may ask for, checked once at the edge.

use std::path::PathBuf;

use agarose_core::{Language, Millis, Owner, SessionId, TicketId};

use crate::error::RequestError;

/// A request for a ticket.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmitRequest {
    /// Whose queue.
    pub session: SessionId,
    /// Who asks.
    pub owner: Owner,
    /// Which interpreter.
    pub language: Language,
    /// What is to be done.
    pub asked: Asked,
    /// The ticket's id, should the caller want to choose it.
    pub ticket: Option<TicketId>,
    /// The same key with the same request is the same ticket.
    pub key: Option<String>,
    /// Run only if that ticket completed.
    pub after: Option<TicketId>,
    /// The ticket that this one tries again.
    pub retry_of: Option<TicketId>,
    /// Start-to-close; absent is the default, zero is none.
    pub timeout: Option<Millis>,
    /// Schedule-to-start; absent or zero is none.
    pub wait_timeout: Option<Millis>,
    /// Heartbeat; absent or zero is none.
    pub idle_timeout: Option<Millis>,
    /// How long a delivered interrupt is waited for.
    pub interrupt_grace: Option<Millis>,
    /// How long TERM and then KILL are waited for, each.
    pub kill_grace: Option<Millis>,
    /// The branch of work it belongs to.
    pub branch: Option<String>,
    /// What it will touch.
    pub resource_keys: Vec<String>,
    /// Where the session's cells run, should this request open the session.
    pub workspace: Option<PathBuf>,
    /// Anything else to be kept.
    pub metadata: Option<serde_json::Value>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Run a cell.
    Cell {
        /// Its source, UTF-8.
        code: Vec<u8>,
        /// What tracebacks call it.
        name: Option<String>,
    },
    /// Stop the kernel.
    StopKernel,
    /// Stop the kernel and start a fresh one.
    RestartKernel,
}

/// The longest source, in bytes: what a supervisor takes in one frame.
const SOURCE_LIMIT: usize = 256 << 20;
/// The longest key, in bytes.
const KEY_LIMIT: usize = 512;
/// The longest short text, in bytes.
const TEXT_LIMIT: usize = 1024;
/// The most resource keys.
const RESOURCE_KEYS: usize = 64;
/// The longest metadata, in bytes.
const METADATA_LIMIT: usize = 64 << 10;

impl SubmitRequest {
    /// A request with nothing but what it must have.
    #[must_use]
    pub const fn new(session: SessionId, owner: Owner, language: Language, asked: Asked) -> Self {
        Self {
            session,
            owner,
            language,
            asked,
            ticket: None,
            key: None,
            after: None,
            retry_of: None,
            timeout: None,
            wait_timeout: None,
            idle_timeout: None,
            interrupt_grace: None,
            kill_grace: None,
            branch: None,
            resource_keys: Vec::new(),
            workspace: None,
            metadata: None,
        }
    }

    pub(crate) fn check(self) -> Result<Self, RequestError> {
        let too_long = |field: &str, length: usize, limit: usize| {
            bad(field, format!("is {length} bytes long, and {limit} are allowed"))
        };
        if let Asked::Cell { code, name } = &self.asked {
            if code.len() > SOURCE_LIMIT {
                return Err(too_long("code", code.len(), SOURCE_LIMIT));
            }
            if let Err(error) = std::str::from_utf8(code) {
                return Err(bad("code", format!("is not UTF-8 at byte {}", error.valid_up_to())));
            }
            if let Some(name) = name.as_ref().filter(|name| name.len() > TEXT_LIMIT) {
                return Err(too_long("name", name.len(), TEXT_LIMIT));
            }
        }
        if let Some(key) = &self.key {
            if key.trim().is_empty() {
                return Err(bad("key", "is empty".to_owned()));
            }
            if key.len() > KEY_LIMIT {
                return Err(too_long("key", key.len(), KEY_LIMIT));
            }
        }
        if let Some(branch) = self.branch.as_ref().filter(|branch| branch.len() > TEXT_LIMIT) {
            return Err(too_long("branch", branch.len(), TEXT_LIMIT));
        }
        if self.resource_keys.len() > RESOURCE_KEYS {
            return Err(bad(
                "resource_keys",
                format!("holds {} keys, and {RESOURCE_KEYS} are allowed", self.resource_keys.len()),
            ));
        }
        if let Some(long) = self.resource_keys.iter().find(|key| key.len() > TEXT_LIMIT) {
            return Err(too_long("resource_keys", long.len(), TEXT_LIMIT));
        }
        if let Some(length) = self.metadata.as_ref().map(|value| value.to_string().len())
            && length > METADATA_LIMIT
        {
            return Err(too_long("metadata", length, METADATA_LIMIT));
        }
        if let Some(workspace) = self.workspace.as_ref().filter(|workspace| !workspace.is_absolute()) {
            return Err(bad("workspace", format!("{} is not an absolute path", workspace.display())));
        }
        Ok(self)
    }

    /// What tells a repeat from a conflict: everything that is asked for, and not who carries it.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        part(self.session.as_str().as_bytes());
        part(self.owner.to_string().as_bytes());
        part(self.language.as_str().as_bytes());
        match &self.asked {
            Asked::Cell { code, name } => {
                part(b"cell");
                part(code);
                part(name.as_deref().unwrap_or_default().as_bytes());
            }
            Asked::StopKernel => part(b"stop"),
            Asked::RestartKernel => part(b"restart"),
        }
        part(self.after.map(|after| after.to_string()).unwrap_or_default().as_bytes());
        for limit in
            [self.timeout, self.wait_timeout, self.idle_timeout, self.interrupt_grace, self.kill_grace]
        {
            part(limit.map(|limit| limit.0.to_string()).unwrap_or_default().as_bytes());
        }
        part(self.branch.as_deref().unwrap_or_default().as_bytes());
        for key in &self.resource_keys {
            part(key.as_bytes());
        }
        part(self.metadata.as_ref().map(ToString::to_string).unwrap_or_default().as_bytes());
        *hasher.finalize().as_bytes()
    }
}

fn bad(field: &str, message: String) -> RequestError {
    RequestError::BadRequest { field: field.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agarose_core::OwnerKind;

    fn request(code: &[u8]) -> SubmitRequest {
        SubmitRequest::new(
            SessionId::new("s").unwrap(),
            Owner::new(OwnerKind::Agent, "a").unwrap(),
            Language::Python,
            Asked::Cell { code: code.to_vec(), name: None },
        )
    }

    #[test]
    fn source_that_is_not_utf_8_is_refused_with_the_place() {
        let refused = request(b"a\xff").check();
        assert_eq!(refused, Err(bad("code", "is not UTF-8 at byte 1".to_owned())));
    }

    #[test]
    fn the_digest_tells_requests_apart_and_not_repeats() {
        assert_eq!(request(b"1").digest(), request(b"1").digest());
        assert_ne!(request(b"1").digest(), request(b"2").digest());
        let mut other = request(b"1");
        other.timeout = Some(Millis(5));
        assert_ne!(request(b"1").digest(), other.digest());
    }
}
