//! The words of `agarose log`.

use std::path::PathBuf;

use agarose_core::{SessionId, TicketId};
use clap::{Args, Subcommand, ValueEnum};

/// What to do with the log of a data directory.
#[derive(Clone, Debug, Args)]
pub struct LogArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: LogCommand,
}

/// The commands of the inspector.
#[derive(Clone, Debug, Subcommand)]
pub enum LogCommand {
    /// List tickets with their last words (or sessions, or single events)
    ///
    /// Tickets are listed in the order in which they ended; those that are still open come last.
    #[command(
        after_help = "Examples:\n  agarose log ls --state failed --since 2h\n  agarose log ls events -s analysis --kind KernelGone"
    )]
    Ls(LsArgs),
    /// Show one event with everything in it, or one ticket with its code, output and events
    #[command(
        after_help = "Examples:\n  agarose log show 120\n  agarose log show 01jdzq8h3v0000000000000000"
    )]
    Show(ShowArgs),
    /// Show the last events, and go on with what follows
    #[command(after_help = "Example:\n  agarose log tail -f -s analysis")]
    Tail(TailArgs),
    /// Find events by a text in what they say or hold
    #[command(
        after_help = "Examples:\n  agarose log grep 'out of memory'\n  agarose log grep -i kill -s analysis --json"
    )]
    Grep(GrepArgs),
    /// Explain in sentences why a ticket ended as it did
    #[command(after_help = "Example:\n  agarose log why 01jdzq8h3v0000000000000000")]
    Why(WhyArgs),
    /// Show the state that the events fold to, now or at an earlier point
    #[command(
        after_help = "Examples:\n  agarose log state\n  agarose log state --at 2026-12-01T04:00:00Z --json\n  agarose log state --at 120"
    )]
    State(StateArgs),
    /// Show what changed in the state between two events
    #[command(after_help = "Example:\n  agarose log diff 100 120")]
    Diff(DiffArgs),
    /// Draw tickets, processes and the daemon's own life along one line of time
    #[command(
        after_help = "Examples:\n  agarose log timeline -s analysis\n  agarose log timeline --html timeline.html"
    )]
    Timeline(TimelineArgs),
    /// List who asked for what: permissions, cancellations, pauses, closings, kills, starts
    #[command(after_help = "Example:\n  agarose log audit --since 1d --json")]
    Audit(AuditArgs),
    /// Count events, last words, times and bytes
    #[command(after_help = "Example:\n  agarose log stats --json")]
    Stats(StatsArgs),
    /// Check the log: chain, checksums, and with --deep the fold and all content
    #[command(after_help = "Example:\n  agarose log verify --deep")]
    Verify(VerifyArgs),
    /// Copy everything that is whole into a new directory, and say what is lost
    #[command(after_help = "Example:\n  agarose log salvage /backup/salvaged")]
    Salvage(SalvageArgs),
    /// Write the whole log as JSON Lines
    #[command(after_help = "Example:\n  agarose log export log.jsonl")]
    Export(ExportArgs),
    /// Make a new log from an export
    #[command(after_help = "Example:\n  agarose log import log.jsonl /backup/imported")]
    Import(ImportArgs),
    /// Show what a compaction could put into an archive
    #[command(after_help = "Example:\n  agarose log compact --dry-run")]
    Compact(CompactArgs),
}

/// Which events or tickets.
#[derive(Clone, Debug, Default, Args)]
pub struct Filter {
    /// Only this session
    #[arg(short, long, value_name = "NAME", value_parser = session)]
    pub session: Option<SessionId>,
    /// Only this ticket
    #[arg(short, long, value_name = "TICKET")]
    pub ticket: Option<TicketId>,
    /// Only from this time on (RFC 3339, or 10m for ten minutes ago)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only up to this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Only from this event on
    #[arg(long, value_name = "SEQ")]
    pub from: Option<u64>,
    /// Only up to this event
    #[arg(long, value_name = "SEQ")]
    pub to: Option<u64>,
}

fn session(text: &str) -> Result<SessionId, agarose_core::id::IdError> {
    SessionId::new(text)
}

/// What `ls` lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Listed {
    /// One line a ticket.
    #[default]
    Tickets,
    /// One line a session.
    Sessions,
    /// One line an event.
    Events,
}

/// A state of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words are those of `agarose show`")]
pub enum TicketState {
    Queued,
    Running,
    Completed,
    Failed,
    Interrupted,
    Cancelled,
    TimedOut,
    Refused,
    Lost,
}

impl TicketState {
    /// The word used everywhere.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Refused => "refused",
            Self::Lost => "lost",
        }
    }
}

/// `ls`
#[derive(Clone, Debug, Args)]
pub struct LsArgs {
    /// What to list
    #[arg(value_enum, default_value_t = Listed::Tickets, hide_default_value = false)]
    pub what: Listed,
    /// Which ones
    #[command(flatten)]
    pub filter: Filter,
    /// Only tickets in this state (may be given more than once)
    #[arg(long, value_enum, value_name = "STATE")]
    pub state: Vec<TicketState>,
    /// Only events of this kind, by name (may be given more than once; lists events)
    #[arg(short, long, value_name = "KIND")]
    pub kind: Vec<String>,
    /// At most this many lines
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub limit: Option<u64>,
}

/// `show`
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// The sequence number of an event, or a ticket
    #[arg(value_name = "SEQ|TICKET")]
    pub what: String,
}

/// `tail`
#[derive(Clone, Debug, Args)]
pub struct TailArgs {
    /// Go on with events as they come, until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// How many of the last events to begin with
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 20)]
    pub lines: u64,
    /// Only this session
    #[arg(short, long, value_name = "NAME", value_parser = session)]
    pub session: Option<SessionId>,
    /// Only this ticket
    #[arg(short, long, value_name = "TICKET")]
    pub ticket: Option<TicketId>,
    /// Only events of this kind, by name (may be given more than once)
    #[arg(short, long, value_name = "KIND")]
    pub kind: Vec<String>,
}

/// `grep`
#[derive(Clone, Debug, Args)]
pub struct GrepArgs {
    /// The text to find
    #[arg(value_name = "TEXT")]
    pub text: String,
    /// Capital and small letters are the same
    #[arg(short, long)]
    pub ignore_case: bool,
    /// Look into the code of cells too
    #[arg(long)]
    pub code: bool,
    /// Which events
    #[command(flatten)]
    pub filter: Filter,
    /// Only events of this kind, by name (may be given more than once)
    #[arg(short, long, value_name = "KIND")]
    pub kind: Vec<String>,
}

/// `why`
#[derive(Clone, Debug, Args)]
pub struct WhyArgs {
    /// Which ticket
    #[arg(value_name = "TICKET")]
    pub ticket: TicketId,
}

/// `state`
#[derive(Clone, Debug, Args)]
pub struct StateArgs {
    /// After this event, or at this time (RFC 3339, or 10m for ten minutes ago)
    #[arg(long, value_name = "SEQ|TIME")]
    pub at: Option<String>,
}

/// `diff`
#[derive(Clone, Debug, Args)]
pub struct DiffArgs {
    /// The earlier point: an event or a time
    #[arg(value_name = "A")]
    pub a: String,
    /// The later point: an event or a time
    #[arg(value_name = "B")]
    pub b: String,
}

/// `timeline`
#[derive(Clone, Debug, Args)]
pub struct TimelineArgs {
    /// Which tickets
    #[command(flatten)]
    pub filter: Filter,
    /// At most this many tickets, the last ones (40 in a terminal, 50000 on a page or in a trace)
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub limit: Option<usize>,
    /// How many columns the line of time has
    #[arg(long, value_name = "COLUMNS", default_value_t = 64)]
    pub width: u16,
    /// Write one self-contained page to this file (`-` for standard output)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write a trace for Perfetto or chrome://tracing to this file (`-` for standard output)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// `audit`
#[derive(Clone, Debug, Args)]
pub struct AuditArgs {
    /// Which events
    #[command(flatten)]
    pub filter: Filter,
}

/// `stats`
#[derive(Clone, Debug, Args)]
pub struct StatsArgs {
    /// Which events
    #[command(flatten)]
    pub filter: Filter,
}

/// `verify`
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// Fold every event, compare with the snapshots, and read all content
    #[arg(long)]
    pub deep: bool,
}

/// `salvage`
#[derive(Clone, Debug, Args)]
pub struct SalvageArgs {
    /// A directory that does not exist yet
    #[arg(value_name = "DIR")]
    pub into: PathBuf,
}

/// `export`
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// The file to write; `-` or nothing for standard output
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// `import`
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// The export to read; `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// A directory that does not exist yet
    #[arg(value_name = "DIR")]
    pub into: PathBuf,
}

/// `compact`
#[derive(Clone, Debug, Args)]
pub struct CompactArgs {
    /// Only show what could be done
    #[arg(long)]
    pub dry_run: bool,
}
