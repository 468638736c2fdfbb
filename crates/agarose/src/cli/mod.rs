//! The command line: what may be typed, and who does it.

mod analyse;
mod artifacts;
mod control;
mod doctor;
mod exec;
mod log;
mod observe;
mod restore;
mod run;
mod screen;
mod serve;
mod sessions;
mod show;
mod stale;
mod stop;
mod submit;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::{
    duration::Dur,
    places,
    report::{self, Exit, Problem},
};

/// Run Python and R cells so that nothing is lost and every end is told truly.
#[derive(Debug, Parser)]
#[command(name = "agarose", version, about, max_term_width = 100, after_help = AFTER_HELP)]
#[command(propagate_version = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Exit codes: 0 completed or done · 1 an error of our own · 2 usage · 3 no daemon · 4 not found · 5 refused
10 failed · 11 interrupted · 12 cancelled · 13 timed out · 14 never run · 15 lost · 20 goes on, or busy

Examples:
  agarose run analysis.ipynb --out executed.ipynb
  agarose serve &
  agarose exec -s work -c 'print(1 + 1)'";

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Where everything is kept [default: $XDG_DATA_HOME/agarose, else ~/.local/share/agarose]
    #[arg(long, global = true, value_name = "DIR", env = "AGAROSE_DATA_DIR", hide_env_values = true)]
    data_dir: Option<PathBuf>,
    /// Print JSON on stdout: one value, or one per line where it streams
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Global {
    /// The data directory.
    pub(crate) fn data_dir(&self) -> Result<PathBuf, Problem> {
        places::data_dir(self.data_dir.as_deref())
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon in the foreground
    #[command(after_help = "Example:\n  agarose serve --memory 4G --kernel-idle 30m\n\n\
        It is ready when it prints one line. SIGTERM or Ctrl-C stops it in order; kernels go on and are\n\
        found again by the next daemon, unless --stop-kernels says otherwise.")]
    Serve(serve::ServeArgs),
    /// Submit a cell and print its ticket at once
    #[command(after_help = "Example:\n  agarose submit -s work -c 'import time; time.sleep(60)'")]
    Submit(SubmitArgs),
    /// Wait for the last word of a ticket
    #[command(after_help = "Example:\n  agarose wait 01kbcdefghjkmnpqrstvwxyz01 --timeout 10m")]
    Wait(WaitArgs),
    /// Submit a cell, show its output as it comes, and wait
    #[command(after_help = "Example:\n  agarose exec -s work -c 'print(1 + 1)'\n\n\
        Ctrl-C cancels exactly this ticket; a second Ctrl-C leaves it running and goes away.")]
    Exec(SubmitArgs),
    /// Observe a cell: what has come since the last observation, and what it waits for
    #[command(
        after_help = "Example:\n  agarose observe 01kbcdefghjkmnpqrstvwxyz01 --until pending --yield-after 5s"
    )]
    Observe(ObserveArgs),
    /// Cancel a ticket, queued or running
    #[command(after_help = "Example:\n  agarose cancel 01kbcdefghjkmnpqrstvwxyz01 --reason 'wrong data'")]
    Cancel(CancelArgs),
    /// Interrupt a running cell once, and nothing more
    #[command(after_help = "Example:\n  agarose interrupt 01kbcdefghjkmnpqrstvwxyz01")]
    Interrupt(CancelArgs),
    /// Stop a cell: interrupt it, and kill its kernel if it does not end
    #[command(after_help = "Example:\n  agarose terminate 01kbcdefghjkmnpqrstvwxyz01")]
    Terminate(CancelArgs),
    /// Show everything known of a ticket
    #[command(after_help = "Example:\n  agarose show 01kbcdefghjkmnpqrstvwxyz01 --json | jq .stdout.text")]
    Show(TicketArg),
    /// Submit the work of a ticket again, as a new ticket
    #[command(after_help = "Example:\n  agarose retry 01kbcdefghjkmnpqrstvwxyz01")]
    Retry(RetryArgs),
    /// Admit no more tickets, in one session or in all; what runs goes on
    #[command(after_help = "Example:\n  agarose pause work")]
    Pause(FlowArgs),
    /// Admit tickets again
    #[command(after_help = "Example:\n  agarose resume --all")]
    Resume(FlowArgs),
    /// List the sessions
    #[command(after_help = "Example:\n  agarose sessions --json | jq -r '.[].session'")]
    Sessions,
    /// Show, close or clean up one session
    #[command(subcommand, after_help = "Example:\n  agarose session close work --reason 'done for today'")]
    Session(SessionCommand),
    /// Show the daemon, its kernels, its queues and what its last start found
    #[command(after_help = "Example:\n  agarose status")]
    Status,
    /// List the questions that wait for an answer
    #[command(after_help = "Example:\n  agarose pending")]
    Pending,
    /// Answer a question with yes
    #[command(after_help = "Example:\n  agarose approve p3")]
    Approve(DecideArgs),
    /// Answer a question with no
    #[command(after_help = "Example:\n  agarose deny p3")]
    Deny(DecideArgs),
    /// List the artifacts that cells have saved
    #[command(after_help = "Example:\n  agarose artifacts work")]
    Artifacts(ArtifactsArgs),
    /// Say where a version of an artifact came from
    #[command(after_help = "Example:\n  agarose lineage 01kbcdefghjkmnpqrstvwxyz01")]
    Lineage(LineageArgs),
    /// Run a notebook or a script, cell by cell
    #[command(after_help = "Examples:\n  agarose run analysis.ipynb --out executed.ipynb\n  \
        agarose run analysis.py -s work --keep-going\n\n\
        Without a daemon one runs inside this command. Ctrl-C cancels exactly the running cell;\n\
        a second Ctrl-C leaves it running and goes away.")]
    Run(RunArgs),
    /// Say what a file of cells reads, writes and deletes, without running it
    #[command(after_help = "Examples:\n  agarose analyse analysis.ipynb\n  \
        agarose analyse - -l r --json < script")]
    Analyse(AnalyseArgs),
    /// Say which results of a session can still be trusted, and why the others cannot
    #[command(after_help = "Examples:\n  agarose stale work\n  \
        agarose stale work --what-if load.py -c 'x = 2'")]
    Stale(StaleArgs),
    /// Build a session's namespace anew from the cells that made it
    #[command(after_help = "Examples:\n  agarose restore work --names df,model --dry-run\n  \
        agarose restore work\n\n\
        Only the cells that the names need run again, in a kernel of their own, and only those that may.\n\
        The session gets that kernel when the names are there. Ctrl-C stops it; the session keeps its kernel.")]
    Restore(RestoreArgs),
    /// Inspect the log of the data directory; no daemon is needed
    #[command(after_help = "Example:\n  agarose log why 01kbcdefghjkmnpqrstvwxyz01")]
    Log(agarose_log::LogArgs),
    /// Check what works on this machine, and say how to mend what does not
    #[command(after_help = "Example:\n  agarose doctor")]
    Doctor(DoctorArgs),
    /// Print the completions for a shell
    #[command(
        after_help = "Example:\n  agarose completions bash > ~/.local/share/bash-completion/completions/agarose"
    )]
    Completions(CompletionsArgs),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The session whose kernel runs it
    #[arg(short, long, default_value = "default")]
    session: String,
    /// The language: python or r [default: by the file's suffix, else python]
    #[arg(short, long)]
    language: Option<String>,
    /// Who asks [default: user_repl:$USER]
    #[arg(long, value_name = "KIND:ID")]
    owner: Option<String>,
    /// A key of your own: the same request under the same key is one ticket
    #[arg(long)]
    key: Option<String>,
    /// How long it may run; 0 is for ever [default: that of the daemon, 900s]
    #[arg(long, value_name = "DUR")]
    timeout: Option<Dur>,
    /// How long it may wait in the queue
    #[arg(long, value_name = "DUR")]
    wait_timeout: Option<Dur>,
    /// How long it may run without a sign of life
    #[arg(long, value_name = "DUR")]
    idle_timeout: Option<Dur>,
    /// How long an interrupt is waited for before the kernel is killed
    #[arg(long, value_name = "DUR")]
    interrupt_grace: Option<Dur>,
    /// How long TERM and then KILL are waited for
    #[arg(long, value_name = "DUR")]
    kill_grace: Option<Dur>,
    /// Run it only if that ticket completes
    #[arg(long, value_name = "TICKET")]
    after: Option<String>,
    /// What tracebacks call it
    #[arg(long)]
    name: Option<String>,
    /// The branch of work it belongs to
    #[arg(long)]
    branch: Option<String>,
    /// Where the cells of a new session run
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// The code
    #[arg(
        short,
        long,
        value_name = "CODE",
        conflicts_with = "file",
        required_unless_present = "file",
        allow_hyphen_values = true
    )]
    code: Option<String>,
    /// A file with the code, or - for standard input
    file: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TicketArg {
    /// Its ticket
    ticket: String,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct WaitArgs {
    /// Its ticket
    ticket: String,
    /// How long to wait at most; the ticket is not touched when the time is over (exit code 20)
    #[arg(long, value_name = "DUR")]
    timeout: Option<Dur>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Until {
    /// What has come within a while
    Yield,
    /// That it waits for its host and for nothing else
    Pending,
    /// Its last word
    End,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ObserveArgs {
    /// Its ticket
    ticket: String,
    /// What to wait for
    #[arg(long, value_enum, default_value = "yield")]
    until: Until,
    /// How long to watch at most [default: 1s with --until yield, else for ever]
    #[arg(long, value_name = "DUR")]
    yield_after: Option<Dur>,
    /// Where to begin in its output [default: where the last observation ended]
    #[arg(long, value_name = "OFFSET")]
    from: Option<u64>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ArtifactsArgs {
    /// Those of this session only
    session: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct LineageArgs {
    /// The version, as `agarose artifacts` lists it
    #[arg(value_name = "VERSION")]
    id: String,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CancelArgs {
    /// Its ticket
    ticket: String,
    /// Whose ticket it is [default: user_repl:$USER]
    #[arg(long, value_name = "KIND:ID")]
    owner: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RetryArgs {
    /// The ticket to try again
    ticket: String,
    /// Who asks [default: the owner of that ticket]
    #[arg(long, value_name = "KIND:ID")]
    owner: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct FlowArgs {
    /// Which session
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    session: Option<String>,
    /// All of them
    #[arg(long)]
    all: bool,
    /// Who asks [default: user_repl:$USER]
    #[arg(long, value_name = "KIND:ID")]
    owner: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Show its queue, its running ticket and its kernels
    Show {
        /// Its name
        session: String,
    },
    /// Refuse new tickets, cancel what waits, stop what runs
    Close(CloseArgs),
    /// Close it, and free its name once nothing runs
    Cleanup(CloseArgs),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CloseArgs {
    /// Its name
    session: String,
    /// Who asks [default: user_repl:$USER]
    #[arg(long, value_name = "KIND:ID")]
    owner: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct DecideArgs {
    /// The question, as `agarose pending` names it
    id: String,
    /// Who answers [default: user_repl:$USER]
    #[arg(long, value_name = "KIND:ID")]
    owner: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// A .py or .R script with `# %%` cells, an .ipynb, a .qmd or an .Rmd
    file: PathBuf,
    /// The session whose kernels run it, kept afterwards [default: a new one, cleaned up at the end]
    #[arg(short, long)]
    session: Option<String>,
    /// Write the executed notebook there
    #[arg(long, value_name = "FILE.ipynb")]
    out: Option<PathBuf>,
    /// Go on after a cell that did not complete
    #[arg(long)]
    keep_going: bool,
    /// How long each cell may run; 0 is for ever [default: that of the daemon, 900s]
    #[arg(long, value_name = "DUR")]
    timeout: Option<Dur>,
    /// Who asks [default: user_repl:$USER]
    #[arg(long, value_name = "KIND:ID")]
    owner: Option<String>,
    /// Where the cells run [default: the current directory]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// The Python of the kernels, when no daemon runs
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// The Rscript of the kernels, when no daemon runs
    #[arg(long, value_name = "PATH")]
    rscript: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct AnalyseArgs {
    /// A .py or .R script, an .ipynb, a .qmd or an .Rmd; with --language any source, or - for standard input
    file: PathBuf,
    /// The language of the whole file: python or r [default: by its suffix]
    #[arg(short, long)]
    language: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct StaleArgs {
    /// Its name
    session: String,
    /// Count every later run, not only those of cells that stand before
    #[arg(long, conflicts_with = "what_if")]
    current_state: bool,
    /// Ask what would have to run again if this cell had other code
    #[arg(long, value_name = "CELL")]
    what_if: Option<String>,
    /// The other code
    #[arg(short, long, value_name = "CODE", requires = "what_if", allow_hyphen_values = true)]
    code: Option<String>,
    /// A file with the other code, or - for standard input
    #[arg(requires = "what_if", conflicts_with = "code")]
    file: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Its name
    session: String,
    /// The names that are wanted [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    names: Vec<String>,
    /// Say what would be run, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// The language: python or r [default: the one that ran last]
    #[arg(short, long)]
    language: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The Python to check [default: the one that cells would run in]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// The Rscript to check [default: the one that cells would run in]
    #[arg(long, value_name = "PATH")]
    rscript: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Does what was typed.
pub(crate) fn act(cli: Cli) -> Result<ExitCode, Problem> {
    let global = &cli.global;
    let exit = match cli.command {
        Command::Serve(args) => serve::serve(global, &args),
        Command::Log(args) => return log::log(global, &args),
        Command::Submit(args) => submit::submit(global, &args),
        Command::Wait(args) => observe::wait(global, &args),
        Command::Exec(args) => exec::exec(global, &args),
        Command::Observe(args) => observe::observe(global, &args),
        Command::Cancel(args) => stop::cancel(global, &args, stop::Reach::Full),
        Command::Terminate(args) => stop::cancel(global, &args, stop::Reach::Full),
        Command::Interrupt(args) => stop::cancel(global, &args, stop::Reach::Interrupt),
        Command::Show(args) => show::show(global, &args.ticket),
        Command::Retry(args) => control::retry(global, &args),
        Command::Pause(args) => control::flow(global, &args, control::Flow::Pause),
        Command::Resume(args) => control::flow(global, &args, control::Flow::Resume),
        Command::Sessions => sessions::list(global),
        Command::Session(command) => sessions::one(global, &command),
        Command::Status => sessions::status(global),
        Command::Pending => control::pending(global),
        Command::Approve(args) => control::decide(global, &args, true),
        Command::Deny(args) => control::decide(global, &args, false),
        Command::Artifacts(args) => artifacts::list(global, &args),
        Command::Lineage(args) => artifacts::lineage(global, &args),
        Command::Run(args) => run::run(global, &args),
        Command::Analyse(args) => analyse::analyse(global, &args),
        Command::Stale(args) => stale::stale(global, &args),
        Command::Restore(args) => restore::restore(global, &args),
        Command::Doctor(args) => doctor::doctor(global, &args),
        Command::Completions(args) => {
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut Cli::command(), "agarose", &mut script);
            report::say(String::from_utf8_lossy(&script).trim_end());
            Ok(Exit::Done)
        }
    };
    exit.map(Into::into)
}

/// Who asks: the one that was named, else the user who types.
fn owner(named: Option<&str>) -> Result<String, Problem> {
    match named {
        None => Ok(format!("user_repl:{}", places::user())),
        // Parsed here too, so that a slip is told before a daemon is asked.
        Some(named) => match named.parse::<agarose_core::Owner>() {
            Ok(owner) => Ok(owner.to_string()),
            Err(error) => Err(Problem::usage(error.to_string())
                .hint("write --owner KIND:ID, for example --owner agent:planner or --owner user_repl:ada")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("agarose "), "{} has no example", command.get_name());
        }
    }

    #[test]
    fn code_or_a_file_is_needed_and_not_both() {
        assert!(Cli::try_parse_from(["agarose", "submit"]).is_err());
        assert!(Cli::try_parse_from(["agarose", "submit", "-c", "1", "f.py"]).is_err());
        assert!(Cli::try_parse_from(["agarose", "submit", "-c", "-1"]).is_ok());
        assert!(Cli::try_parse_from(["agarose", "exec", "-"]).is_ok());
    }
}
