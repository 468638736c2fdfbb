//! Tables of commands and exactly what they make happen, one line each:
//!
//! ```text
//! submit 1    -> opened s; queued 1; admitted 1; starting python g0
//! ready g0    -> ready g0; execute g0/1 #1
//! cancel 1 by=b -> refused: ticket … does not belong to agent:b
//! ```
//!
//! Tickets are small numbers, generations `gN`, durations milliseconds. The session is `s` and the
//! owner `a` unless a word says otherwise (`in=t`, `by=b`).

use alloc::{boxed::Box, format, string::String, vec::Vec};

use super::drive::{Drive, blob, owner, request, session, start};
use crate::{
    budget::Counters,
    capability::{BashReport, BashStatus, CapabilityId, Grant},
    command::{Cancel, Command, ExecutionReport, KernelReport, Reach},
    event::{Event, Output, ResultStatus, TicketEnded},
    host_call::{Answered, CallId, CallOutcome, Called, Decision, HostFact},
    id::{Generation, Language, Lease, TicketId},
    permission::PermissionId,
    slot::{Exit, GroupOutcome, KernelProcess},
    ticket::Work,
    time::Millis,
    watchdog::{KernelFate, LadderEnd, NobodyReason, Verdict},
    world::{Answer, CancelAnswer, Policy},
};

/// Walks a table in a world of its own and gives it back.
#[track_caller]
pub(crate) fn walk(table: &str) -> Drive {
    let mut drive = Drive::default();
    go_on(&mut drive, table);
    drive
}

/// Walks a table in a world that has seen something already.
#[track_caller]
pub(crate) fn go_on(drive: &mut Drive, table: &str) {
    for row in table.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let (command, expected) = row.split_once("->").map_or((row, None), |(c, e)| (c, Some(e.trim())));
        let happened = act(drive, command.trim());
        if let Some(expected) = expected {
            assert_eq!(happened, expected, "\nin the row: {row}");
        }
        drive.world.check().unwrap_or_else(|broken| panic!("{broken}\nafter the row: {row}"));
    }
}

/// Does what one row says and tells what happened.
fn act(drive: &mut Drive, text: &str) -> String {
    let words = Words(text.split_whitespace().collect());
    if let Some(pause) = words.after("wait").or_else(|| words.after("pass")) {
        drive.pass(pause.parse().unwrap());
        if words.0[0] == "pass" {
            return String::new();
        }
    }
    let command = command(drive, &words);
    match drive.decide(&command) {
        Err(refusal) => format!("refused: {refusal}"),
        Ok(decided) => {
            let mut told: Vec<String> = decided.events.iter().map(tell).collect();
            if told.is_empty() {
                told.push(String::from("nothing"));
            }
            told.extend(tell_answer(&decided.answer));
            told.join("; ")
        }
    }
}

struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    /// The word after `name`, when the row begins with that.
    fn after(&self, name: &str) -> Option<&'a str> {
        (self.0[0] == name).then(|| self.0[1])
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    /// What stands after `name=`.
    fn value(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.value(name).map(|value| value.parse().unwrap())
    }

    fn millis(&self, name: &str) -> Option<Millis> {
        self.number(name).map(Millis)
    }

    fn ticket(&self) -> TicketId {
        TicketId(self.0[1].parse().unwrap())
    }

    fn generation(&self) -> Generation {
        Generation(self.0[1].strip_prefix('g').unwrap().parse().unwrap())
    }

    fn named_session(&self) -> crate::id::SessionId {
        session(self.value("in").unwrap_or("s"))
    }

    fn call(&self) -> CallId {
        CallId(self.0[2].strip_prefix('h').unwrap().parse().unwrap())
    }

    fn output(&self) -> Option<Output> {
        self.has("output").then(Output::default)
    }
}

fn command(drive: &Drive, words: &Words<'_>) -> Command {
    let by = words.value("by").map_or_else(|| owner("a"), |by| by.parse().unwrap_or_else(|_| owner(by)));
    match words.0[0] {
        "start" => {
            let plain = Policy::default();
            start(Policy {
                queue_cap: words.number("cap").unwrap_or(plain.queue_cap),
                kernel_idle: words.millis("idle"),
                recent: words.number("recent").unwrap_or(plain.recent),
                ..plain
            })
        }
        "stop" => Command::StopDaemon { stop_kernels: words.has("kernels") },
        "submit" => {
            let mut submit = request("s", 0);
            submit.session = words.named_session();
            submit.ticket = words.ticket();
            submit.owner = by;
            submit.language = if words.has("r") { Language::R } else { Language::Python };
            if words.has("restart") {
                submit.work = Work::RestartKernel;
            } else if words.has("halt") {
                submit.work = Work::StopKernel;
            }
            submit.key = words.value("key").map(String::from);
            submit.digest = [u8::try_from(words.number("digest").unwrap_or(0)).unwrap(); 32];
            submit.after = words.number("after").map(|ticket| TicketId(ticket.into()));
            submit.retry_of = words.number("retry").map(|ticket| TicketId(ticket.into()));
            submit.timeouts.schedule_to_start = words.millis("wait");
            submit.timeouts.start_to_close = words.millis("timeout");
            submit.timeouts.heartbeat = words.millis("beat");
            submit.timeouts.interrupt_grace = words.millis("grace");
            Command::Submit(Box::new(submit))
        }
        "cancel" => Command::Cancel(Cancel {
            ticket: words.ticket(),
            owner: by,
            reason: String::from(words.value("why").unwrap_or("enough")),
            reach: match (words.has("queued"), words.has("interrupt")) {
                (true, _) => Reach::Queued,
                (_, true) => Reach::Interrupt,
                (false, false) => Reach::Full,
            },
        }),
        "pause" => Command::Pause { session: words.value("in").map(session), by },
        "resume" => Command::Resume { session: words.value("in").map(session), by },
        "close" => Command::CloseSession {
            session: words.named_session(),
            by,
            reason: String::from(words.value("why").unwrap_or("over")),
            remove: words.has("remove"),
        },
        "ask" => Command::ProposePermission {
            session: words.named_session(),
            ticket: (words.0[1] != "-").then(|| words.ticket()),
            method: String::from("bash"),
            detail: String::from("ls"),
            expires_after: words.millis("expires"),
        },
        "allow" | "deny" => Command::DecidePermission {
            permission: PermissionId(words.0[1].strip_prefix('p').unwrap().parse().unwrap()),
            allow: words.0[0] == "allow",
            by,
        },
        "tick" | "wait" => Command::Tick,
        "settle" => Command::Settle { session: words.named_session() },
        "ready" | "failed" | "gone" | "reattached" => {
            let generation = words.generation();
            let (session, language) = drive.generations()[&generation].clone();
            Command::Kernel { session, language, generation, report: kernel_report(words) }
        }
        _ => {
            let (session, sent) = drive.lease_of(words.ticket()).unwrap();
            let generation = words.number("under").map_or(sent.generation, Generation);
            let lease = Lease { generation, ..sent };
            Command::Execution { session, lease, report: execution_report(words) }
        }
    }
}

fn kernel_report(words: &Words<'_>) -> KernelReport {
    match words.0[0] {
        "ready" => KernelReport::Ready(KernelProcess::default()),
        "failed" => KernelReport::StartFailed {
            reason: String::from("no module"),
            unavailable: words.has("unavailable"),
        },
        "reattached" => KernelReport::Reattached,
        _ => KernelReport::Gone {
            exit: if words.has("unknown") {
                Exit::Unknown { evidence: String::from("its supervisor is gone") }
            } else {
                Exit::Signal { signal: 9, out_of_memory: false }
            },
            while_down: words.has("down"),
            began: if words.has("begun") { Some(true) } else { words.has("unbegun").then_some(false) },
            output: words.output(),
            left: None,
        },
    }
}

fn execution_report(words: &Words<'_>) -> ExecutionReport {
    match words.0[0] {
        "began" => ExecutionReport::Acknowledged,
        "result" => ExecutionReport::Result {
            status: match words.0[2] {
                "ok" => ResultStatus::Ok,
                "error" => ResultStatus::Error,
                "interrupted" => ResultStatus::Interrupted,
                other => panic!("no status {other}"),
            },
            interrupt_landed: words.has("landed"),
            record: blob(),
            output: Output::default(),
        },
        "call" => ExecutionReport::HostCall(Box::new(called(words))),
        "giveup" => ExecutionReport::HostCallGivenUp { call: words.call() },
        "served" => {
            ExecutionReport::HostCallAnswered { call: words.call(), answered: Box::new(answered(words)) }
        }
        "observed" => ExecutionReport::Observed { through: words.number("at").unwrap() },
        "alive" => ExecutionReport::Active { at: words.number("at").unwrap() },
        "verdict" => ExecutionReport::Interrupt {
            attempt: u32::try_from(words.number("attempt").unwrap_or(1)).unwrap(),
            verdict: if words.has("delivered") {
                Verdict::Delivered
            } else {
                Verdict::ReachedNobody { reason: NobodyReason::NotArmed }
            },
        },
        "stopped" => ExecutionReport::Stopped {
            outcome: if words.has("alive") {
                GroupOutcome::Alive { left: Vec::new() }
            } else {
                GroupOutcome::ExitedOnTerm
            },
            output: words.output(),
        },
        other => panic!("no command {other}"),
    }
}

fn called(words: &Words<'_>) -> Called {
    let rule = || String::from("the rule");
    Called {
        call: words.call(),
        method: String::from("m"),
        digest: [0; 32],
        bytes: 2,
        preview: String::from("{}"),
        repeatable: !words.has("once"),
        decision: match (words.has("ask"), words.has("deny")) {
            (true, _) => Decision::Ask { rule: rule() },
            (_, true) => Decision::Deny { rule: rule() },
            (false, false) => Decision::Allow { rule: rule() },
        },
        expires_after: words.millis("expires"),
        answered: words.has("inline").then(|| Box::new(answered(words))),
    }
}

fn answered(words: &Words<'_>) -> Answered {
    let outcome = if words.has("failed") {
        CallOutcome::Failed { kind: String::from("not_found"), message: String::from("no") }
    } else {
        CallOutcome::Ok
    };
    let grant = |name| {
        words.number(name).map(|number| {
            Box::new(Grant {
                capability: CapabilityId([u8::try_from(number).unwrap(); 32]),
                command: [u8::try_from(words.number("command").unwrap_or(1)).unwrap(); 32],
                directory: String::from("/w"),
                root: String::from("/w"),
                generation: Generation(words.number("of").unwrap_or(0)),
                challenge: String::from("c"),
                issued: 0,
                expires: words.number("until").unwrap_or(60_000),
                detach: words.has("detach"),
            })
        })
    };
    let report = words.number("report").map(|number| HostFact::Report {
        capability: CapabilityId([u8::try_from(number).unwrap(); 32]),
        report: BashReport {
            status: BashStatus::Completed,
            exit_code: Some(0),
            wall_ms: 1,
            stdout: Counters::default(),
            stderr: Counters::default(),
            stopped: 0,
        },
    });
    let document =
        words.value("write").map(|name| HostFact::Document { name: String::from(name), content: blob() });
    let facts =
        [grant("grant").map(HostFact::Grant), grant("consume").map(HostFact::Consume), report, document];
    Answered { outcome, bytes: 2, answer: None, facts: facts.into_iter().flatten().collect() }
}

fn tell_answer(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Done | Answer::Permission(_) | Answer::Call(_) | Answer::Ticket { repeated: false, .. } => {
            None
        }
        Answer::Ticket { ticket, repeated: true } => Some(format!("it is {}", ticket.0)),
        Answer::Cancel(found) => Some(match found {
            CancelAnswer::Dequeued => String::from("it waited"),
            CancelAnswer::StoppedBeforeStart => String::from("it had not begun"),
            CancelAnswer::Interrupting => String::from("it is being interrupted"),
            CancelAnswer::AlreadyRequested { reason } => format!("asked before: {reason}"),
            CancelAnswer::CannotStop => String::from("it cannot be stopped"),
        }),
    }
}

/// An event in a few words. Lower case, so that tables read; debug text where a value is an enum.
fn tell(event: &Event) -> String {
    let lease = |lease: &Lease| format!("{}/{}", lease.generation, lease.ticket.0);
    let word = |value: &dyn core::fmt::Debug| format!("{value:?}").to_lowercase();
    match event {
        Event::DaemonStarted(_) => String::from("started"),
        Event::DaemonStopping { stop_kernels: true } => String::from("stopping with kernels"),
        Event::DaemonStopping { stop_kernels: false } => String::from("stopping"),
        Event::SessionOpened { session, .. } => format!("opened {session}"),
        Event::SessionPaused { session, .. } => format!("paused {session}"),
        Event::SessionResumed { session, .. } => format!("resumed {session}"),
        Event::SessionClosed { session, .. } => format!("closed {session}"),
        Event::SessionRemoved { session } => format!("removed {session}"),
        Event::AllPaused { .. } => String::from("paused all"),
        Event::AllResumed { .. } => String::from("resumed all"),
        Event::TicketQueued(queued) => format!("queued {}", queued.ticket.0),
        Event::TicketAdmitted { ticket, .. } => format!("admitted {}", ticket.0),
        Event::CancelRequested { ticket, reason, .. } => format!("cancel {} ({reason})", ticket.0),
        Event::TicketEnded(TicketEnded { ticket, word, executed, .. }) => {
            format!("ended {} {} {}", ticket.0, word.as_str(), executed.as_str())
        }
        Event::CellClosed { ticket, .. } => format!("cell {} closed", ticket.0),
        Event::KernelStarting { language, generation, previous: None, .. } => {
            format!("starting {language} {generation}")
        }
        Event::KernelStarting { language, generation, previous: Some(previous), .. } => {
            format!("starting {language} {generation} after {previous}")
        }
        Event::KernelReady { generation, .. } => format!("ready {generation}"),
        Event::KernelStartFailed { generation, .. } => format!("failed {generation}"),
        Event::KernelStopRequested { generation, reason, .. } => {
            format!("stop {generation} ({})", word(reason))
        }
        Event::KernelGone { generation, .. } => format!("gone {generation}"),
        Event::KernelReattached { generation, .. } => format!("reattached {generation}"),
        Event::ExecuteRequested { lease: under, ordinal, variables_lost: None, .. } => {
            format!("execute {} #{ordinal}", lease(under))
        }
        Event::ExecuteRequested { lease: under, ordinal, variables_lost: Some(lost), .. } => {
            format!("execute {} #{ordinal} without {lost}", lease(under))
        }
        Event::ExecuteAcknowledged { lease: under, .. } => format!("began {}", lease(under)),
        Event::ResultReceived { lease: under, status, .. } => {
            format!("result {} {}", lease(under), word(status))
        }
        Event::OutputKept { lease: under, .. } => format!("output {}", lease(under)),
        Event::ActivityNoted { lease: under, at, .. } => format!("alive {} at {at}", lease(under)),
        Event::LadderStarted { lease: under, cause, .. } => {
            format!("ladder {} {}", lease(under), word(cause))
        }
        Event::InterruptRequested { lease: under, attempt, .. } => {
            format!("interrupt {} #{attempt}", lease(under))
        }
        Event::InterruptAnswered { lease: under, verdict: Verdict::Delivered, .. } => {
            format!("delivered {}", lease(under))
        }
        Event::InterruptAnswered { lease: under, .. } => format!("reached nobody {}", lease(under)),
        Event::KillRequested { lease: under, .. } => format!("kill {}", lease(under)),
        Event::GroupStopped { lease: under, outcome, .. } => {
            format!("group {} {}", lease(under), if outcome.is_gone() { "gone" } else { "not gone" })
        }
        Event::LadderEnded { lease: under, end, .. } => {
            let end = match end {
                LadderEnd::Finished => String::from("finished"),
                LadderEnd::Ignored => String::from("ignored"),
                LadderEnd::Stopped(KernelFate::Reset { replacement: None, .. }) => String::from("reset"),
                LadderEnd::Stopped(KernelFate::Reset { replacement: Some(generation), .. }) => {
                    format!("reset to {generation}")
                }
                LadderEnd::Stopped(KernelFate::NotReset { .. }) => String::from("not reset"),
                LadderEnd::Stopped(KernelFate::ResetUnavailable { .. }) => String::from("reset unavailable"),
            };
            format!("ladder {} {end}", lease(under))
        }
        Event::PermissionProposed { permission, .. } => format!("asked {permission}"),
        Event::PermissionDecided { permission, allowed, .. } => {
            format!("{} {permission}", if *allowed { "allowed" } else { "denied" })
        }
        Event::PermissionExpired { permission, .. } => format!("expired {permission}"),
        Event::CellAnalysed { ticket, .. } => format!("analysed {ticket}"),
        Event::RestoreStarted { session, candidate, .. } => format!("restore {session} in {candidate}"),
        Event::RestorePublished { session, generation, .. } => format!("restored {session} as {generation}"),
        Event::RestoreEnded { session, outcome, .. } => format!("restore {session} {}", outcome.as_str()),
        Event::HostCallStarted(started) => format!("called {} {}", started.call, started.method),
        Event::HostCallDispatched { call, .. } => format!("dispatched {call}"),
        Event::HostCallAnswered { call, outcome, .. } => format!("answered {call} {}", outcome.as_str()),
        Event::HostCallCancelRequested { call, .. } => format!("give up {call}"),
        Event::CellDraining { lease: under, .. } => format!("draining {}", lease(under)),
        Event::CapabilityGranted { grant, .. } => format!("granted {}", grant.capability.0[0]),
        Event::CapabilityConsumed { capability, .. } => format!("consumed {}", capability.0[0]),
        Event::CapabilityReported { capability, .. } => format!("reported {}", capability.0[0]),
        Event::CapabilityVoided { capability, reason, .. } => {
            format!("voided {} {}", capability.0[0], reason.as_str())
        }
        Event::OutputSubmitted { .. } => String::from("submitted"),
        Event::ArtifactSaved { artifact, .. } => format!("saved {}", artifact.name),
        Event::DocumentWritten { name, version, .. } => format!("wrote {name} {version}"),
        Event::OutputObserved { through, .. } => format!("observed {through}"),
    }
}
