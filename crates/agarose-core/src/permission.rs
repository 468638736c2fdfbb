//! A question that somebody has to answer: proposed, then decided or expired, once.
//!
//! | state | event | next |
//! |---|---|---|
//! | – | `PermissionProposed` | pending |
//! | pending | `PermissionDecided` | gone |
//! | pending | `PermissionExpired` | gone |
//! | pending | the ticket it belongs to ends | gone (expired in the same decision) |

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{SessionId, TicketId};

/// One question, counted over the whole data directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PermissionId(pub u64);

impl fmt::Display for PermissionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// A question without an answer yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permission {
    /// Its name.
    pub id: PermissionId,
    /// Of which session.
    pub session: SessionId,
    /// The cell that waits for it.
    pub ticket: Option<TicketId>,
    /// What is asked for.
    pub method: String,
    /// The particulars, for people.
    pub detail: String,
    /// Since when, wall clock.
    pub since: u64,
    /// When it expires, on the data directory's clock.
    pub expires: Option<u64>,
}
