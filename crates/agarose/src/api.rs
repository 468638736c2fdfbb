//! The values that travel over the socket, as both ends write and read them.
//!
//! Absent is absent, never null. A reader passes over fields that it does not know; the server refuses
//! them in requests, so that a misspelt option is not silently nothing.

use serde::{Deserialize, Serialize};

/// A request for a ticket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmitBody {
    pub(crate) session: String,
    /// `KIND:ID`.
    pub(crate) owner: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) language: Option<String>,
    pub(crate) code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wait_timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) idle_timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interrupt_grace_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kill_grace_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) branch: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) resource_keys: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<serde_json::Value>,
    /// Where the cells of a new session run; absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<String>,
}

/// The answer to a submit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SubmittedBody {
    pub(crate) ticket: String,
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) position: u64,
    #[serde(default)]
    pub(crate) repeated: bool,
}

/// One observation of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ObservedBody {
    pub(crate) ticket: String,
    pub(crate) state: String,
    pub(crate) running: bool,
    /// Host calls that are waited for.
    #[serde(default)]
    pub(crate) outstanding: Vec<agarose_engine::observe::OutstandingView>,
    #[serde(default)]
    pub(crate) output: Vec<RunBody>,
    #[serde(default)]
    pub(crate) dropped: u64,
    /// Where the next observation begins.
    pub(crate) next: u64,
}

/// A request to stop a ticket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelBody {
    pub(crate) owner: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// `full`, `queued` or `interrupt`; absent is `full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reach: Option<String>,
}

/// A request to try a ticket again; absent is the owner of the first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
}

/// A request to close a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CloseBody {
    pub(crate) owner: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(default)]
    pub(crate) remove: bool,
}

/// A request to pause or to resume: one session, or `all`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    #[serde(default)]
    pub(crate) all: bool,
    pub(crate) owner: String,
}

/// A question to somebody outside: may this go on? While one about a running ticket waits, its clocks stand still.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionBody {
    pub(crate) session: String,
    /// The ticket whose clocks stand still meanwhile; none stands still for a question without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ticket: Option<String>,
    /// What is asked for, in one word.
    pub(crate) method: String,
    /// What exactly, for whoever decides.
    #[serde(default)]
    pub(crate) detail: String,
    /// After how many milliseconds without an answer it counts as denied; never without this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_ms: Option<u64>,
}

/// The answer to a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionBody {
    pub(crate) allow: bool,
    pub(crate) owner: String,
}

/// A question: what if this cell had this code?
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhatIfBody {
    pub(crate) cell: String,
    pub(crate) code: String,
}

/// A request to build a namespace anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) language: Option<String>,
    /// Empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) names: Vec<String>,
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// A request to stop a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreCancelBody {
    pub(crate) owner: String,
}

/// A request to stop the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShutdownBody {
    #[serde(default)]
    pub(crate) stop_kernels: bool,
}

/// A piece of the merged stream of a ticket's output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OutputBody {
    pub(crate) runs: Vec<RunBody>,
    /// Where to read on.
    pub(crate) next: u64,
    /// Bytes that were dropped before `next` in this piece.
    #[serde(default)]
    pub(crate) dropped: u64,
    /// Whether this is all that there will ever be.
    #[serde(default)]
    pub(crate) ended: bool,
}

/// Consecutive bytes of one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunBody {
    /// `stdout`, `stderr` or `display`.
    pub(crate) channel: String,
    /// The offset of its first byte.
    pub(crate) start: u64,
    /// How many bytes of the stream it covers.
    pub(crate) length: u64,
    /// The bytes as text, with U+FFFD for what is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// The bytes, when the text is not all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base64: Option<String>,
    /// What a display channel carries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) displays: Vec<DisplayBody>,
}

/// One thing that was shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DisplayBody {
    /// `display`, `result`, `update` or `clear_output`.
    #[serde(default)]
    pub(crate) kind: String,
    /// By media type: text as text, `+json` as JSON, the rest in base64.
    #[serde(default)]
    pub(crate) data: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    pub(crate) metadata: serde_json::Map<String, serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) display_id: Option<String>,
    /// Of `clear_output`: only when the next thing is shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) wait: bool,
}

/// What the program reads of a ticket's view; `show --json` prints the whole of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TicketView {
    pub(crate) ticket: String,
    pub(crate) session: String,
    pub(crate) owner: OwnerView,
    pub(crate) language: String,
    pub(crate) state: String,
    pub(crate) executed: Option<String>,
    pub(crate) position: u64,
    pub(crate) generation: Option<String>,
    pub(crate) queued_at: Option<String>,
    pub(crate) started_at: Option<String>,
    pub(crate) finished_at: Option<String>,
    pub(crate) cancel: Option<CancelView>,
    pub(crate) stdout: StreamView,
    pub(crate) stderr: StreamView,
    pub(crate) display: Vec<DisplayBody>,
    pub(crate) result: Option<serde_json::Map<String, serde_json::Value>>,
    pub(crate) figures: Vec<String>,
    pub(crate) error: Option<ErrorView>,
    pub(crate) notes: Vec<String>,
    pub(crate) analysis: Option<agarose_analysis::Summary>,
    pub(crate) visibility: Option<String>,
    pub(crate) replay_policy: Option<String>,
    pub(crate) replay_reasons: Vec<String>,
    pub(crate) verdict: Option<agarose_engine::stale::VerdictView>,
}

impl TicketView {
    /// Whether it has its last word.
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self.state.as_str(), "queued" | "running")
    }
}

/// Whose it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OwnerView {
    pub(crate) kind: String,
    pub(crate) id: String,
}

/// A request to stop it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CancelView {
    pub(crate) requested: bool,
    pub(crate) reason: Option<String>,
}

/// One channel of output and its four numbers.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct StreamView {
    #[serde(skip_serializing)]
    pub(crate) text: String,
    pub(crate) seen: u64,
    pub(crate) retained: u64,
    pub(crate) dropped: u64,
    pub(crate) truncated: bool,
    pub(crate) unit: String,
}

/// How it went wrong.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorView {
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) traceback: Option<String>,
    pub(crate) line: Option<u64>,
    pub(crate) kernel: Option<String>,
}
