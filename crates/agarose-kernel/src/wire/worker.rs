//! What the supervisor and a worker say to each other.

use std::collections::BTreeMap;

use agarose_core::Generation;
use serde::{Deserialize, Serialize};

use super::{Channel, ExecutionId, generation_text};

/// How the worker shows things; fixed for the life of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerOptions {
    /// Whether cells run through IPython where the interpreter has it.
    #[serde(default)]
    pub ipython: UseIpython,
    /// The longest body of one `display`, in bytes; a longer one is replaced by a text that says so.
    #[serde(default = "max_display_bytes")]
    pub max_display_bytes: u64,
    /// The longest traceback, in characters.
    #[serde(default = "max_traceback_chars")]
    pub max_traceback_chars: u64,
    /// The resolution of captured figures, in dots per inch.
    #[serde(default = "figure_dpi")]
    pub figure_dpi: u32,
}

const fn max_display_bytes() -> u64 {
    4 << 20
}

const fn max_traceback_chars() -> u64 {
    64 << 10
}

const fn figure_dpi() -> u32 {
    100
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            ipython: UseIpython::default(),
            max_display_bytes: max_display_bytes(),
            max_traceback_chars: max_traceback_chars(),
            figure_dpi: figure_dpi(),
        }
    }
}

/// Whether cells run through IPython.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UseIpython {
    /// Never.
    #[default]
    Off,
    /// When the interpreter has it.
    Auto,
    /// Always; without it the kernel does not start.
    On,
}

/// Supervisor to worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum ToWorker {
    /// The first frame.
    Hello {
        /// [`super::PROTOCOL`].
        protocol: u32,
        /// Which life of the kernel this is.
        #[serde(with = "generation_text")]
        generation: Generation,
        /// The absolute path of the directory that cells run in.
        workspace: String,
        /// How things are shown.
        options: WorkerOptions,
    },
    /// Run the body as one cell.
    Execute {
        /// Which execution.
        id: ExecutionId,
        /// The file name for tracebacks, such as `<cell 3>`.
        name: String,
        /// The number of the cell in its session.
        ordinal: u64,
        /// Whether figures and displays are captured.
        capture: bool,
    },
    /// Leave.
    Shutdown {},
    /// All that was written before the `flush` has been read.
    Flushed {},
    /// The answer to a host call; the body is JSON, the value or the error.
    HostReply {
        /// Which call.
        call: u64,
        /// Whether the body is a value or an error.
        ok: bool,
    },
}

/// Worker to supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum FromWorker {
    /// The first frame: the interpreter is up.
    Ready(Ready),
    /// User code begins; from here an interrupt may land.
    Started {
        /// Which execution.
        id: ExecutionId,
    },
    /// Something to show; the body is its parts, one after the other.
    Display(Display),
    /// What was displayed before is to be taken back.
    ClearOutput {
        /// Which execution.
        id: ExecutionId,
        /// Only when the next display comes.
        #[serde(default)]
        wait: bool,
    },
    /// What was written so far is to be read before anything that follows; the worker waits for
    /// `flushed`. For workers that cannot ask whether a pipe has been read.
    Flush {
        /// Which execution.
        id: ExecutionId,
    },
    /// Text written by a thread that an earlier cell started; it belongs to the kernel.
    Stray {
        /// Where it was written to.
        channel: Channel,
    },
    /// A remark for the supervisor's log.
    Log {
        /// `debug`, `info`, `warn` or `error`.
        level: String,
        /// The remark.
        message: String,
    },
    /// The last frame of an execution.
    Result(CellResult),
    /// A call of `host`; the body is its arguments.
    HostCall {
        /// Which execution.
        id: ExecutionId,
        /// The call's number, unique in this kernel.
        call: u64,
        /// What is called.
        method: String,
    },
    /// Nobody waits for the answer of this call any more.
    HostCallGivenUp {
        /// Which execution.
        id: ExecutionId,
        /// Which call.
        call: u64,
    },
}

/// What a worker says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// [`super::PROTOCOL`].
    pub protocol: u32,
    /// `python` or `r`.
    pub language: String,
    /// The interpreter's version, such as `3.11.7`.
    pub version: String,
    /// The interpreter's own path.
    pub executable: String,
    /// The worker's process id, as it sees it.
    pub pid: i32,
    /// The environment's prefix.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// A digest of the names and versions of the installed packages.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub packages_digest: String,
}

/// Something to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Display {
    /// Which execution.
    pub id: ExecutionId,
    /// What sort of display.
    pub kind: DisplayKind,
    /// A name under which it may be updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_id: Option<String>,
    /// The parts, in the order of their bytes in the body.
    pub parts: Vec<DisplayPart>,
    /// What the library says of it, by MIME type.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

/// What sort of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisplayKind {
    /// Shown by a call.
    Display,
    /// The value of the last expression.
    Result,
    /// In place of an earlier display with the same name.
    Update,
}

/// One form of a display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisplayPart {
    /// Its MIME type.
    pub mime: String,
    /// Its length in the body, in bytes.
    pub len: u64,
}

/// How an execution ended, as the worker says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellResult {
    /// Which execution.
    pub id: ExecutionId,
    /// The word.
    pub status: CellStatus,
    /// Whether the worker's own interrupt handler fired while it was armed.
    #[serde(default)]
    pub interrupt_seen: bool,
    /// The error that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CellError>,
    /// Files read, as far as they were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_read: Vec<FileUse>,
    /// Files written, as far as they were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_written: Vec<FileUse>,
    /// How many there were.
    #[serde(default)]
    pub files_counters: FileCounters,
    /// What became of the namespace, when the worker can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<NamesSeen>,
    /// What it used.
    #[serde(default)]
    pub usage: Usage,
    /// What the worker has to say about the execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The word for how an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellStatus {
    /// To its end.
    Ok,
    /// By an error.
    Error,
    /// By an interrupt that the worker's own handler raised.
    Interrupted,
}

/// The error that ended a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellError {
    /// Its type.
    pub name: String,
    /// What it says.
    pub message: String,
    /// Where it came from, bounded.
    #[serde(default)]
    pub traceback: String,
    /// The line of the cell, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Whether it was the cell's own wish to exit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<bool>,
}

/// A file that a cell used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileUse {
    /// Its path.
    pub path: String,
    /// Its size, in bytes, when it could be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The digest of its content, when it is small enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Whether its name looks like a secret's, so that nothing else is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masked: Option<bool>,
}

/// The names that are not what they were after the execution before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamesSeen {
    /// Which report of this worker it is, from 0: one that is missing took its changes with it.
    pub number: u64,
    /// A fingerprint of the whole value, comparable within one worker.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub known: BTreeMap<String, String>,
    /// Names whose value is new, or another, and cannot be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Names that are not bound any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbound: Vec<String>,
}

/// How many files an execution used, recorded or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCounters {
    /// Files read.
    #[serde(default)]
    pub read_seen: u64,
    /// Files written.
    #[serde(default)]
    pub written_seen: u64,
}

/// What an execution used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Time by the clock, in milliseconds.
    #[serde(default)]
    pub wall_ms: u64,
    /// Time of the processor, in milliseconds.
    #[serde(default)]
    pub cpu_ms: u64,
    /// The most memory ever resident, in KiB.
    #[serde(default)]
    pub peak_rss_kb: u64,
}
