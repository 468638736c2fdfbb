//! One event as a clause in the present tense, in words that need no manual.

use agarose_core::{
    EndCause, Event, Executed, Millis, Word,
    capability::VoidReason,
    event::{Output, ResultStatus},
    host_call::{CallOutcome, Decision},
    slot::{Exit, GroupOutcome, ProcessNote, StopReason},
    ticket::{Timeouts, Work},
    watchdog::{Cause, KernelFate, LadderEnd, NobodyReason, Verdict},
};

use crate::{
    clock::duration,
    json::hex,
    words::{bytes, count, interpreter, plain, quoted, short, who},
};

/// What happens, without a full stop.
pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::DaemonStarted(started) => {
            let mut text = format!("Agarose {} starts as process {}", plain(&started.version), started.pid);
            for found in &started.found {
                text.push_str("; ");
                text.push_str(&short(found, 300));
            }
            text
        }
        Event::DaemonStopping { stop_kernels: true } => {
            "Agarose stops and takes its kernels with it".to_owned()
        }
        Event::DaemonStopping { stop_kernels: false } => {
            "Agarose stops; its kernels go on and wait for the next start".to_owned()
        }
        Event::SessionOpened { session, .. } => format!("session {} is opened", quoted(session.as_str())),
        Event::SessionPaused { session, by } => {
            format!("{} pauses session {}: nothing new begins there", who(by), quoted(session.as_str()))
        }
        Event::SessionResumed { session, by } => {
            format!("{} resumes session {}", who(by), quoted(session.as_str()))
        }
        Event::SessionClosed { session, reason, remove } => format!(
            "session {} is closed: {}{}",
            quoted(session.as_str()),
            quoted(reason),
            if *remove { "; its name is freed when its last work is gone" } else { "" }
        ),
        Event::SessionRemoved { session } => {
            format!("session {} is gone, and its name is free", quoted(session.as_str()))
        }
        Event::AllPaused { by } => format!("{} pauses every session: nothing new begins", who(by)),
        Event::AllResumed { by } => format!("{} resumes every session", who(by)),
        Event::TicketQueued(queued) => {
            let mut text = format!(
                "{} submits {} to session {}",
                who(&queued.owner),
                request(&queued.work, interpreter(queued.language)),
                quoted(queued.session.as_str())
            );
            if let Work::Cell { name: Some(name), .. } = &queued.work {
                text.push_str(&format!(" under the name {}", quoted(name)));
            }
            if let Some(after) = queued.after {
                text.push_str(&format!(", to run only if {after} completes"));
            }
            if let Some(first) = queued.retry_of {
                text.push_str(&format!(", to try {first} again"));
            }
            let limits = limits(&queued.timeouts);
            if !limits.is_empty() {
                text.push_str(&format!("; {limits}"));
            }
            text
        }
        Event::TicketAdmitted { .. } => "it is its turn: nothing is before it any more".to_owned(),
        Event::CancelRequested { by, reason, .. } => {
            let asks = format!("{} asks for it to be stopped", who(by));
            if reason.trim().is_empty() { asks } else { format!("{asks}: {}", quoted(reason)) }
        }
        Event::TicketEnded(ended) => {
            format!("its last word is {}: {}", word(ended.word), cause(&ended.cause, ended.executed))
        }
        Event::CellClosed { .. } => "it is closed: its place is free for the next".to_owned(),
        Event::KernelStarting { language, generation, previous, .. } => {
            let mut text = format!("a {} process is started ({generation})", interpreter(*language));
            if let Some(previous) = previous {
                text.push_str(&format!("; the variables of the one before ({previous}) are gone"));
            }
            text
        }
        Event::KernelReady { language, generation, process, .. } => format!(
            "{} {} is ready for cells ({generation}, process {})",
            interpreter(*language),
            short(&process.version, 60),
            process.pid
        ),
        Event::KernelStartFailed { language, generation, reason, unavailable, .. } => format!(
            "{} {} ({generation}): {}",
            interpreter(*language),
            if *unavailable { "is not available here" } else { "does not start" },
            short(reason, 300)
        ),
        Event::KernelStopRequested { language, generation, reason, .. } => format!(
            "the {} process ({generation}) is told to stop: {}",
            interpreter(*language),
            match reason {
                StopReason::Idle => "nobody used it for as long as the rules say",
                StopReason::Requested => "somebody asked for it",
                StopReason::SessionClosed => "its session is closed",
                StopReason::DaemonStopping => "Agarose stops",
            }
        ),
        Event::KernelGone { language, generation, exit: how, .. } => {
            format!("the {} process ({generation}) is gone: it {}", interpreter(*language), exit(how))
        }
        Event::KernelReattached { language, generation, .. } => format!(
            "Agarose finds the {} process ({generation}) alive and goes on with it",
            interpreter(*language)
        ),
        Event::ExecuteRequested { lease, ordinal, variables_lost, .. } => {
            let mut text = format!("it is sent to its process ({}) as cell {ordinal}", lease.generation);
            if let Some(lost) = variables_lost {
                text.push_str(&format!(
                    "; it is the first one there, and the variables of the process before ({lost}) are gone"
                ));
            }
            text
        }
        Event::ExecuteAcknowledged { .. } => "its code begins to run".to_owned(),
        Event::ResultReceived { status, output: kept, .. } => format!(
            "{}; {}",
            match status {
                ResultStatus::Ok => "its code runs to its end",
                ResultStatus::Error => "its code raises an error",
                ResultStatus::Interrupted => "the interrupt ends its code",
            },
            output(kept)
        ),
        Event::OutputKept { output: kept, .. } => {
            format!("what it printed so far is kept; {}", output(kept))
        }
        Event::ActivityNoted { .. } => "it shows a sign of life".to_owned(),
        Event::LadderStarted { cause, .. } => match cause {
            Cause::Timeout => "it has run as long as it may: Agarose begins to stop it".to_owned(),
            Cause::IdleTimeout => {
                "it has shown no sign of life for as long as it may: Agarose begins to stop it".to_owned()
            }
            Cause::Cancellation => "Agarose begins to stop it, as asked".to_owned(),
            Cause::Interrupt => "Agarose interrupts it once, as asked".to_owned(),
        },
        Event::InterruptRequested { attempt, .. } => match attempt {
            0 | 1 => "an interrupt is sent to it".to_owned(),
            n => format!("an interrupt is sent to it again (number {n})"),
        },
        Event::InterruptAnswered { verdict, .. } => match verdict {
            Verdict::Delivered => "the interrupt reaches its code".to_owned(),
            Verdict::ReachedNobody { reason } => format!("the interrupt reaches nobody: {}", nobody(*reason)),
        },
        Event::KillRequested { .. } => {
            "its process and everything that it started are told to end, by force if need be".to_owned()
        }
        Event::GroupStopped { outcome, .. } => group(outcome),
        Event::LadderEnded { end, .. } => match end {
            LadderEnd::Finished => "a result came after all: nothing more is done to stop it".to_owned(),
            LadderEnd::Ignored => "the interrupt changes nothing, and it runs on".to_owned(),
            LadderEnd::Stopped(fate) => format!("it is over: {}", kernel_fate(fate)),
        },
        Event::PermissionProposed { permission, method, detail, .. } => {
            format!("somebody has to allow {} ({permission}): {}", quoted(method), quoted(detail))
        }
        Event::PermissionDecided { permission, allowed, by, .. } => {
            format!("{} {} it ({permission})", who(by), if *allowed { "allows" } else { "denies" })
        }
        Event::PermissionExpired { permission, .. } => {
            format!("nobody has answered in time, which means no ({permission})")
        }
        Event::CellAnalysed { analyser, .. } => format!("what it reads and writes is known ({analyser})"),
        Event::RestoreStarted { language, candidate, .. } => {
            format!("its {language} namespace is being built anew in {candidate}")
        }
        Event::RestorePublished { candidate, generation, .. } => {
            format!("it goes on with kernel {generation}, which was built in {candidate}")
        }
        Event::RestoreEnded { outcome, .. } => format!("the restore is over: {}", outcome.as_str()),
        Event::HostCallStarted(started) => {
            let decision = match &started.decision {
                Decision::Allow { rule } if rule.is_empty() => String::new(),
                Decision::Allow { rule } => format!(", allowed by {}", short(rule, 100)),
                Decision::Ask { .. } => match started.permission {
                    Some(permission) => format!(", and somebody is asked ({permission})"),
                    None => String::new(),
                },
                Decision::Deny { rule } => format!(", refused by {}", short(rule, 100)),
            };
            let preview = short(&started.preview, 200);
            let what = if preview.is_empty() { String::new() } else { format!(" ({preview})") };
            format!("its code calls host.{}{what}, call {}{decision}", started.method, started.call)
        }
        Event::HostCallDispatched { call, .. } => format!("call {call} is being done"),
        Event::HostCallAnswered { call, outcome, bytes: length, .. } => match outcome {
            CallOutcome::Ok => format!("call {call} is answered, with {}", bytes(*length)),
            CallOutcome::Failed { kind, message } => {
                format!("call {call} fails ({kind}): {}", short(message, 300))
            }
            CallOutcome::Denied { reason } => format!("call {call} is refused: {}", short(reason, 300)),
            CallOutcome::Cancelled => format!("call {call} is given up; it was not done, or not to its end"),
            CallOutcome::OutcomeUnknown => {
                format!("call {call} was under way when Agarose died: whether it was done is not known")
            }
            CallOutcome::Abandoned => {
                format!("call {call} did not end in time after its cell, and is left alone")
            }
        },
        Event::HostCallCancelRequested { call, .. } => format!("call {call} is told to stop"),
        Event::CellDraining { .. } => {
            "its code has ended; the calls that it left behind are waited for".to_owned()
        }
        Event::CapabilityGranted { grant, .. } => format!(
            "one command may be run once in {} (SHA-256 {})",
            short(&grant.directory, 200),
            hex(&grant.command[..8])
        ),
        Event::CapabilityConsumed { capability, .. } => {
            format!("the command is started ({})", hex(&capability.0[..8]))
        }
        Event::CapabilityReported { capability, report, .. } => {
            let code = report.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
            format!(
                "the command is over ({}): {}{code}, {} on stdout, {} on stderr",
                hex(&capability.0[..8]),
                report.status.as_str().replace('_', " "),
                bytes(report.stdout.seen()),
                bytes(report.stderr.seen()),
            )
        }
        Event::CapabilityVoided { capability, reason, .. } => format!(
            "the right to run the command is taken back ({}): {}",
            hex(&capability.0[..8]),
            match reason {
                VoidReason::DaemonRestarted => "Agarose was restarted before it was used, so it was not run",
                VoidReason::CellEnded => "its cell ended before it was used, so it was not run",
                VoidReason::OutcomeUnknown =>
                    "its cell ended without saying how it went; it may have run once",
            }
        ),
        Event::OutputSubmitted { submission, .. } => {
            format!("it hands in a result: {}", short(&submission.bullets.join("; "), 300))
        }
        Event::ArtifactSaved { artifact, .. } => format!(
            "it saves {} as version {} ({}, {})",
            quoted(&artifact.name),
            artifact.version,
            short(&artifact.media_type, 60),
            bytes(artifact.content.length)
        ),
        Event::DocumentWritten { name, version, .. } => format!("it writes {name}, version {version}"),
        Event::OutputObserved { through, .. } => format!("its output was read up to {through}"),
    }
}

/// What is asked for, with its article.
pub(crate) fn request(work: &Work, interpreter: &str) -> String {
    match work {
        Work::Cell { .. } => format!("{} {interpreter} cell", article(interpreter)),
        Work::StopKernel => format!("a request to stop the {interpreter} process"),
        Work::RestartKernel => format!("a request to restart the {interpreter} process"),
    }
}

/// `a Python cell`, `an R cell`.
pub(crate) fn article(interpreter: &str) -> &'static str {
    if interpreter == "R" { "an" } else { "a" }
}

/// A last word as people say it.
pub(crate) const fn word(word: Word) -> &'static str {
    match word {
        Word::Completed => "completed",
        Word::Failed => "failed",
        Word::Interrupted => "interrupted",
        Word::Cancelled => "cancelled",
        Word::TimedOut => "timed out",
        Word::Refused => "refused",
        Word::Lost => "lost",
    }
}

fn limits(timeouts: &Timeouts) -> String {
    let mut limits = Vec::new();
    let set = |limit: Option<Millis>| limit.filter(|limit| limit.0 > 0);
    if let Some(limit) = set(timeouts.schedule_to_start) {
        limits.push(format!("it may wait {}", duration(limit.0)));
    }
    if let Some(limit) = set(timeouts.start_to_close) {
        limits.push(format!("it may run {}", duration(limit.0)));
    }
    if let Some(limit) = set(timeouts.heartbeat) {
        limits.push(format!("it may be silent for {}", duration(limit.0)));
    }
    limits.join(", ")
}

fn cause(cause: &EndCause, executed: Executed) -> String {
    match cause {
        EndCause::Result { status: ResultStatus::Ok } => "its code ran to its end".to_owned(),
        EndCause::Result { status: ResultStatus::Error } => "its code raised an error".to_owned(),
        EndCause::Result { status: ResultStatus::Interrupted } => "an interrupt ended its code".to_owned(),
        EndCause::CancelledBeforeStart => "it was cancelled before it was sent".to_owned(),
        EndCause::AdmissionTimedOut => "it waited longer than it may".to_owned(),
        EndCause::PredecessorNotCompleted { after, word: how } => {
            format!("{after}, which had to complete first, has {}", ended_as(*how))
        }
        EndCause::SessionClosed => "its session was closed while it waited".to_owned(),
        EndCause::NoKernel { reason } => format!("there is no process to run it: {}", short(reason, 300)),
        EndCause::KernelDied { exit: how } => format!("its process {}", exit(how)),
        EndCause::Lost { exit: how } => format!(
            "its process was gone when Agarose came back; it {}{}",
            exit(how),
            match executed {
                Executed::Yes => "",
                Executed::No => "; its code had not begun",
                Executed::Unknown => "; whether its code had begun is not known",
            }
        ),
        EndCause::Stopped { cause, .. } => match cause {
            Cause::Timeout => "it ran longer than it may".to_owned(),
            Cause::IdleTimeout => "it was silent longer than it may be".to_owned(),
            Cause::Cancellation | Cause::Interrupt => "it was stopped as asked".to_owned(),
        },
        EndCause::Lifecycle => "it is done".to_owned(),
    }
}

/// A last word after `has`.
pub(crate) const fn ended_as(word: Word) -> &'static str {
    match word {
        Word::Completed => "completed",
        Word::Failed => "failed",
        Word::Interrupted => "been interrupted",
        Word::Cancelled => "been cancelled",
        Word::TimedOut => "timed out",
        Word::Refused => "been refused",
        Word::Lost => "been lost",
    }
}

/// How a process ended, after `it` or its name.
pub(crate) fn exit(exit: &Exit) -> String {
    match exit {
        Exit::Code(0) => "ended by itself".to_owned(),
        Exit::Code(code) => format!("ended by itself with exit code {code}"),
        Exit::Signal { out_of_memory: true, .. } => {
            format!("was {}", plain(&exit.to_string()).replace("(out of memory)", "because memory ran out"))
        }
        Exit::Signal { .. } => format!("was {exit}"),
        Exit::Limit { limit } => format!("was killed by a limit of Agarose: {}", short(limit, 200)),
        Exit::Stopped => "was stopped by Agarose".to_owned(),
        Exit::Protocol { reason } => {
            format!("was given up because its messages made no sense: {}", short(reason, 200))
        }
        Exit::Unknown { evidence } => format!("left no word how it ended ({})", short(evidence, 200)),
    }
}

/// What became of the processes that were told to end.
pub(crate) fn group(outcome: &GroupOutcome) -> String {
    match outcome {
        GroupOutcome::AlreadyExited => "its process has already ended".to_owned(),
        GroupOutcome::ExitedOnTerm => "its process ends when asked to".to_owned(),
        GroupOutcome::Killed { killed } => format!("its process is killed ({})", processes(killed)),
        GroupOutcome::Alive { left } => {
            format!("its process cannot be stopped (still there: {})", processes(left))
        }
        GroupOutcome::NotSignalled { errno } => {
            format!("its process cannot be told to end (error {errno} of the operating system)")
        }
        GroupOutcome::Unreachable { reason } => {
            format!("nobody can tell whether its process has ended: {}", short(reason, 200))
        }
    }
}

/// Processes by id and command, as many as fit into a sentence.
pub(crate) fn processes(notes: &[ProcessNote]) -> String {
    const SHOWN: usize = 4;
    let mut texts: Vec<String> = notes
        .iter()
        .take(SHOWN)
        .map(|note| {
            let left = if note.escaped { ", which had left its group" } else { "" };
            format!("process {} {}{left}", note.pid, quoted(&note.command))
        })
        .collect();
    if let Some(more) = notes.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        texts.push(format!("{more} more"));
    }
    if texts.is_empty() { "no process is named".to_owned() } else { texts.join(", ") }
}

fn kernel_fate(fate: &KernelFate) -> String {
    match fate {
        KernelFate::Reset { replacement: Some(new), .. } => {
            format!("its process is gone with its variables, and a new one ({new}) takes its place")
        }
        KernelFate::Reset { replacement: None, .. } => {
            "its process is gone with its variables; a new one starts with the next cell".to_owned()
        }
        KernelFate::NotReset { .. } => "it could not be stopped from here and may still run".to_owned(),
        KernelFate::ResetUnavailable { .. } => {
            "its process is gone with its variables, and a new one does not start".to_owned()
        }
    }
}

/// Why an interrupt reached nobody.
pub(crate) const fn nobody(reason: NobodyReason) -> &'static str {
    match reason {
        NobodyReason::StaleLease => "another cell is there",
        NobodyReason::NotArmed => "its code has not begun or has just ended",
        NobodyReason::WorkerGone => "its process is gone",
        NobodyReason::SupervisorUnreachable => "the one who watches its process does not answer",
    }
}

/// What was printed, with what was dropped.
pub(crate) fn output(output: &Output) -> String {
    let seen = output.stdout.seen().saturating_add(output.stderr.seen());
    let dropped = output.stdout.dropped().saturating_add(output.stderr.dropped());
    match (seen, dropped) {
        (0, _) => "it printed nothing".to_owned(),
        (_, 0) => format!("it printed {}", bytes(seen)),
        (_, _) => format!("it printed {}, of which {} were too many to keep", bytes(seen), bytes(dropped)),
    }
}

/// How many others.
pub(crate) fn others(n: u64) -> String {
    count(n, "other request", "other requests")
}

/// How many others, and the verb that follows.
pub(crate) fn others_are(n: u64) -> String {
    format!("{} {}", others(n), if n == 1 { "is" } else { "are" })
}
