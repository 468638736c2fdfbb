//! Golden payloads: what a released version wrote is read for ever, and today's version still writes it.

use std::{collections::BTreeMap, fmt::Write, fs, path::PathBuf};

use agarose_core::{
    BlobRef, Counters, Generation, Language, Lease, Millis, Owner, OwnerKind, SessionId, TicketId, Unit,
    attempt::{EndCause, Executed, Word},
    capability::{BashReport, BashStatus, CapabilityId, Grant, VoidReason},
    event::{
        DaemonStarted, Event, HostCallStarted, Output, RestoreOutcome, ResultStatus, TicketEnded,
        TicketQueued,
    },
    host_call::{Artifact, CallId, CallOutcome, Decision, Submission},
    permission::PermissionId,
    slot::{Exit, GroupOutcome, KernelProcess, ProcessNote, StopReason},
    ticket::{Timeouts, Work},
    watchdog::{Cause, KernelFate, LadderEnd, NobodyReason, Verdict},
    world::Policy,
};
use proptest::prelude::*;
use serde::{Deserialize, Deserializer, de::Visitor, forward_to_deserialize_any};

use super::{DecodeError, KINDS, decode, encode};

/// Samples of every kind of event, and of every form that its contents can take.
fn samples() -> Vec<Event> {
    let session = SessionId::new("analysis").unwrap();
    let other_session = SessionId::new("restore-1").unwrap();
    let ticket = TicketId(0x0193_8d5b_7c00_1234_5678_9abc_def0_1122);
    let other = TicketId(300);
    let generation = Generation(7);
    let lease = Lease { generation, ticket };
    let ada = Owner::new(OwnerKind::Agent, "ada").unwrap();
    let by = |kind| Owner::new(kind, "someone").unwrap();
    let blob = BlobRef { hash: [0xab; 32], length: 70_000 };
    let note = ProcessNote { pid: 4711, state: 'D', command: "python3 -u".to_owned(), escaped: true };
    let groups = [
        GroupOutcome::AlreadyExited,
        GroupOutcome::ExitedOnTerm,
        GroupOutcome::Killed { killed: vec![note.clone()] },
        GroupOutcome::Alive { left: vec![note.clone(), note] },
        GroupOutcome::NotSignalled { errno: 1 },
        GroupOutcome::Unreachable { reason: "no answer".to_owned() },
    ];
    let exits = [
        Exit::Code(-1),
        Exit::Signal { signal: 9, out_of_memory: true },
        Exit::Limit { limit: "memory limit 2 GiB".to_owned() },
        Exit::Stopped,
        Exit::Protocol { reason: "frame too long".to_owned() },
        Exit::Unknown { evidence: "another boot".to_owned() },
    ];
    let policy = Policy {
        queue_cap: 64,
        interrupt_grace: Millis(10_000),
        kill_grace: Millis(10_000),
        start_deadline: Millis(60_000),
        kernel_idle: Some(Millis(3_600_000)),
        recent: 1000,
    };
    let mut events = vec![
        Event::DaemonStarted(DaemonStarted {
            version: "0.1.0".to_owned(),
            boot: "b7c1d4e0-0000-4000-8000-000000000000".to_owned(),
            pid: 42,
            uptime: 123_456,
            found: vec!["a torn record was cut".to_owned()],
            policy: policy.clone(),
        }),
        Event::DaemonStarted(DaemonStarted {
            version: String::new(),
            boot: String::new(),
            pid: u32::MAX,
            uptime: 0,
            found: Vec::new(),
            policy: Policy { kernel_idle: None, ..policy },
        }),
        Event::DaemonStopping { stop_kernels: false },
        Event::DaemonStopping { stop_kernels: true },
        Event::SessionOpened { session: session.clone(), workspace: None },
        Event::SessionOpened { session: session.clone(), workspace: Some("/data/a".to_owned()) },
        Event::SessionPaused { session: session.clone(), by: by(OwnerKind::UserRepl) },
        Event::SessionResumed { session: session.clone(), by: by(OwnerKind::Lifecycle) },
        Event::SessionClosed { session: session.clone(), reason: "done".to_owned(), remove: true },
        Event::SessionRemoved { session: session.clone() },
        Event::AllPaused { by: by(OwnerKind::Recovery) },
        Event::AllResumed { by: by(OwnerKind::System) },
        Event::TicketQueued(Box::new(TicketQueued {
            session: session.clone(),
            ticket,
            owner: ada.clone(),
            language: Language::Python,
            work: Work::Cell { source: blob, name: Some("<cell 3>".to_owned()) },
            key: Some("once".to_owned()),
            digest: [3; 32],
            after: Some(other),
            after_word: Some(Word::Completed),
            retry_of: Some(other),
            timeouts: Timeouts {
                schedule_to_start: Some(Millis(1)),
                start_to_close: Some(Millis(900_000)),
                heartbeat: Some(Millis(3)),
                interrupt_grace: Some(Millis(4)),
                kill_grace: Some(Millis(5)),
            },
            branch: Some("main".to_owned()),
            resource_keys: vec!["gpu".to_owned(), "db".to_owned()],
            metadata: Some("{\"a\":1}".to_owned()),
        })),
        Event::TicketAdmitted { session: session.clone(), ticket },
        Event::CancelRequested {
            session: session.clone(),
            ticket,
            by: ada.clone(),
            reason: "enough".to_owned(),
        },
        Event::CellClosed { session: session.clone(), ticket },
        Event::KernelReady {
            session: session.clone(),
            language: Language::R,
            generation,
            process: KernelProcess {
                pid: 99,
                executable: "/usr/bin/R".to_owned(),
                version: "4.2.2".to_owned(),
                packages: "d1ge57".to_owned(),
            },
        },
        Event::KernelReattached { session: session.clone(), language: Language::Python, generation },
        Event::ExecuteAcknowledged { session: session.clone(), lease },
        Event::OutputKept {
            session: session.clone(),
            lease,
            output: Output {
                stdout: Counters::new(10, 4, Unit::Bytes),
                stderr: Counters::new(3, 3, Unit::Characters),
                stream: Some(blob),
            },
        },
        Event::ActivityNoted { session: session.clone(), lease, at: 1 << 40 },
        Event::InterruptRequested { session: session.clone(), lease, attempt: 2 },
        Event::KillRequested { session: session.clone(), lease },
        Event::PermissionProposed {
            session: session.clone(),
            permission: PermissionId(5),
            ticket: Some(ticket),
            method: "host.bash".to_owned(),
            detail: "rm -r out".to_owned(),
            expires: Some(1234),
        },
        Event::PermissionProposed {
            session: session.clone(),
            permission: PermissionId(6),
            ticket: None,
            method: String::new(),
            detail: String::new(),
            expires: None,
        },
        Event::PermissionDecided {
            session: session.clone(),
            permission: PermissionId(5),
            allowed: true,
            by: ada.clone(),
        },
        Event::PermissionExpired { session: session.clone(), permission: PermissionId(5) },
        Event::CellAnalysed {
            session: session.clone(),
            ticket,
            analyser: "agarose-analysis 1".to_owned(),
            facts: blob,
        },
        Event::RestoreStarted {
            session: session.clone(),
            language: Language::Python,
            candidate: other_session.clone(),
            plan: blob,
        },
        Event::RestorePublished {
            session: session.clone(),
            language: Language::R,
            candidate: other_session.clone(),
            generation,
            replaced: Some(Generation(6)),
        },
        Event::RestorePublished {
            session: session.clone(),
            language: Language::R,
            candidate: other_session.clone(),
            generation,
            replaced: None,
        },
    ];
    for work in [Work::Cell { source: blob, name: None }, Work::StopKernel, Work::RestartKernel] {
        let queued = TicketQueued::plain(session.clone(), ticket, ada.clone(), Language::R, work);
        events.push(Event::TicketQueued(Box::new(queued)));
    }
    for previous in [None, Some(Generation(6))] {
        let (session, language) = (session.clone(), Language::Python);
        events.push(Event::KernelStarting { session: session.clone(), language, generation, previous });
        events.push(Event::ExecuteRequested { session, lease, ordinal: 251, variables_lost: previous });
    }
    for unavailable in [false, true] {
        let (session, reason) = (session.clone(), "not found".to_owned());
        events.push(Event::KernelStartFailed {
            session,
            language: Language::R,
            generation,
            reason,
            unavailable,
        });
    }
    for reason in
        [StopReason::Idle, StopReason::Requested, StopReason::SessionClosed, StopReason::DaemonStopping]
    {
        events.push(Event::KernelStopRequested {
            session: session.clone(),
            language: Language::Python,
            generation,
            reason,
        });
    }
    for exit in exits.clone() {
        events.push(Event::KernelGone {
            session: session.clone(),
            language: Language::Python,
            generation,
            exit,
        });
    }
    for (status, interrupt_landed) in
        [(ResultStatus::Ok, false), (ResultStatus::Error, false), (ResultStatus::Interrupted, true)]
    {
        events.push(Event::ResultReceived {
            session: session.clone(),
            lease,
            status,
            interrupt_landed,
            record: blob,
            output: Output::default(),
        });
    }
    for cause in [Cause::Timeout, Cause::IdleTimeout, Cause::Cancellation, Cause::Interrupt] {
        events.push(Event::LadderStarted { session: session.clone(), lease, cause });
    }
    let nobody = [
        NobodyReason::StaleLease,
        NobodyReason::NotArmed,
        NobodyReason::WorkerGone,
        NobodyReason::SupervisorUnreachable,
    ];
    let verdicts = nobody.into_iter().map(|reason| Verdict::ReachedNobody { reason });
    for verdict in verdicts.chain([Verdict::Delivered]) {
        events.push(Event::InterruptAnswered { session: session.clone(), lease, verdict });
    }
    for outcome in [RestoreOutcome::Complete, RestoreOutcome::Partial, RestoreOutcome::Failed] {
        events.push(Event::RestoreEnded {
            session: session.clone(),
            language: Language::Python,
            candidate: other_session.clone(),
            outcome,
            report: blob,
        });
    }
    for outcome in groups.clone() {
        events.push(Event::GroupStopped { session: session.clone(), lease, outcome });
    }
    let group = groups[1].clone();
    let fates = [
        KernelFate::Reset { group: group.clone(), replacement: Some(Generation(8)) },
        KernelFate::NotReset { group: group.clone() },
        KernelFate::ResetUnavailable { group },
    ];
    let ends = fates.clone().map(LadderEnd::Stopped);
    for end in ends.into_iter().chain([LadderEnd::Finished, LadderEnd::Ignored]) {
        events.push(Event::LadderEnded { session: session.clone(), lease, end });
    }
    let words = [
        Word::Completed,
        Word::Failed,
        Word::Interrupted,
        Word::Cancelled,
        Word::TimedOut,
        Word::Refused,
        Word::Lost,
    ];
    let causes = [
        EndCause::Result { status: ResultStatus::Ok },
        EndCause::CancelledBeforeStart,
        EndCause::AdmissionTimedOut,
        EndCause::PredecessorNotCompleted { after: other, word: Word::Failed },
        EndCause::SessionClosed,
        EndCause::NoKernel { reason: "no R".to_owned() },
        EndCause::KernelDied { exit: exits[0].clone() },
        EndCause::Lost { exit: exits[5].clone() },
        EndCause::Stopped { cause: Cause::Timeout, kernel: fates[0].clone() },
        EndCause::Lifecycle,
    ];
    let executed = [Executed::Yes, Executed::No, Executed::Unknown];
    for (n, cause) in causes.into_iter().enumerate() {
        let (word, executed) = (words[n % words.len()], executed[n % executed.len()]);
        events.push(Event::TicketEnded(TicketEnded {
            session: session.clone(),
            ticket,
            word,
            executed,
            cause,
        }));
    }
    host_events(&mut events, &session, lease, blob);
    events
}

/// Calls of cells to their host, and what they make true.
fn host_events(events: &mut Vec<Event>, session: &SessionId, lease: Lease, blob: BlobRef) {
    let call = CallId(300);
    let rule = || "rule 2".to_owned();
    let decisions =
        [Decision::Allow { rule: rule() }, Decision::Ask { rule: rule() }, Decision::Deny { rule: rule() }];
    for decision in decisions {
        let permission = matches!(decision, Decision::Ask { .. }).then_some(PermissionId(5));
        events.push(Event::HostCallStarted(Box::new(HostCallStarted {
            session: session.clone(),
            lease,
            call,
            method: "read_file".to_owned(),
            digest: [3; 32],
            bytes: 1000,
            preview: "{\"path\":\"a\"}".to_owned(),
            repeatable: permission.is_none(),
            decision,
            permission,
        })));
    }
    events.push(Event::HostCallDispatched { session: session.clone(), lease, call });
    events.push(Event::HostCallCancelRequested { session: session.clone(), lease, call });
    let outcomes = [
        CallOutcome::Ok,
        CallOutcome::Failed { kind: "not_found".to_owned(), message: "there is no such file".to_owned() },
        CallOutcome::Denied { reason: "agent:a said no".to_owned() },
        CallOutcome::Cancelled,
        CallOutcome::OutcomeUnknown,
        CallOutcome::Abandoned,
    ];
    for outcome in outcomes {
        let answer = (outcome == CallOutcome::Ok).then_some(blob);
        events.push(Event::HostCallAnswered {
            session: session.clone(),
            lease,
            call,
            outcome,
            bytes: 70_000,
            answer,
        });
    }
    events.push(Event::CellDraining {
        session: session.clone(),
        lease,
        word: Word::Completed,
        executed: Executed::Yes,
        cause: EndCause::Result { status: ResultStatus::Ok },
        until: 5000,
    });
    let capability = CapabilityId([9; 32]);
    events.push(Event::CapabilityGranted {
        session: session.clone(),
        lease,
        grant: Box::new(Grant {
            capability,
            command: [4; 32],
            directory: "/w/sub".to_owned(),
            root: "/w".to_owned(),
            generation: Generation(7),
            challenge: "c".to_owned(),
            issued: 10,
            expires: 60_010,
            detach: true,
        }),
    });
    events.push(Event::CapabilityConsumed { session: session.clone(), lease, capability });
    let statuses = [
        BashStatus::Completed,
        BashStatus::TimedOut,
        BashStatus::Interrupted,
        BashStatus::LaunchFailed,
        BashStatus::Failed,
    ];
    for (n, status) in statuses.into_iter().enumerate() {
        events.push(Event::CapabilityReported {
            session: session.clone(),
            lease,
            capability,
            report: BashReport {
                status,
                exit_code: (n == 0).then_some(-1),
                wall_ms: 1234,
                stdout: Counters::new(10, 4, Unit::Bytes),
                stderr: Counters::default(),
                stopped: 2,
            },
        });
    }
    for reason in [VoidReason::DaemonRestarted, VoidReason::CellEnded, VoidReason::OutcomeUnknown] {
        events.push(Event::CapabilityVoided { session: session.clone(), lease, capability, reason });
    }
    events.push(Event::OutputSubmitted {
        session: session.clone(),
        lease,
        submission: Submission { output: blob, bullets: vec!["Fitted the model".to_owned()] },
    });
    for origin in [None, Some(TicketId(3))] {
        events.push(Event::ArtifactSaved {
            session: session.clone(),
            lease,
            artifact: Box::new(Artifact {
                version: TicketId(8),
                name: "plot.png".to_owned(),
                content: blob,
                media_type: "image/png".to_owned(),
                inputs: origin.into_iter().collect(),
                origin,
                source: origin.map(|_| blob),
            }),
        });
    }
    events.push(Event::DocumentWritten {
        session: session.clone(),
        lease,
        name: "plan".to_owned(),
        version: 2,
        content: blob,
    });
    events.push(Event::OutputObserved { session: session.clone(), ticket: lease.ticket, through: 1 << 20 });
}

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/v1/events")
}

#[test]
fn every_golden_payload_is_read_as_it_was_meant_and_written_as_it_was() {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for event in samples() {
        let (kind, version, bytes) = encode(&event).unwrap();
        assert_eq!(decode(kind, version, &bytes).unwrap(), event);
        let text = files.entry(format!("{kind:02}-{version}-{}.hex", event.name())).or_default();
        for byte in bytes {
            write!(text, "{byte:02x}").unwrap();
        }
        text.push('\n');
    }
    // A new kind gets its file by a run with this set; a file that is there is never written again.
    let write = std::env::var_os("AGAROSE_WRITE_GOLDEN").is_some();
    for (name, text) in files {
        let path = golden().join(&name);
        if write && !path.exists() {
            fs::write(&path, &text).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(text, expected, "{name}");
    }
}

#[test]
fn every_golden_payload_of_any_version_decodes() {
    for entry in fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut parts = name.split('-');
        let kind = parts.next().unwrap().parse().unwrap();
        let version = parts.next().unwrap().parse().unwrap();
        for line in fs::read_to_string(&path).unwrap().lines() {
            let digits: Vec<u8> = line.bytes().collect();
            let bytes: Vec<u8> = digits
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect();
            decode(kind, version, &bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[test]
fn the_codec_knows_every_kind_of_event_that_core_has_by_its_number_and_its_name() {
    let mut in_core = variants();
    in_core.sort_unstable();
    let mut here: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    here.sort_unstable();
    assert_eq!(here, in_core);
    assert!(KINDS.is_sorted_by_key(|kind| kind.number));
    let sampled: BTreeMap<u16, &str> = samples().iter().map(|event| (event.kind(), event.name())).collect();
    assert_eq!(sampled, KINDS.iter().map(|kind| (kind.number, kind.name)).collect());
}

/// The names of the variants of the event, as core declares them.
fn variants() -> Vec<&'static str> {
    #[derive(Debug)]
    struct Names(&'static [&'static str]);
    impl std::fmt::Display for Names {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{:?}", self.0)
        }
    }
    impl std::error::Error for Names {}
    impl serde::de::Error for Names {
        fn custom<T: std::fmt::Display>(_: T) -> Self {
            Self(&[])
        }
    }
    struct Asked;
    impl<'de> Deserializer<'de> for Asked {
        type Error = Names;
        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Names> {
            Err(Names(&[]))
        }
        fn deserialize_enum<V: Visitor<'de>>(
            self,
            _: &'static str,
            variants: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Names> {
            Err(Names(variants))
        }
        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
        }
    }
    Event::deserialize(Asked).unwrap_err().0.to_vec()
}

#[test]
fn an_event_of_a_newer_version_or_kind_is_named_as_such_and_not_skipped() {
    assert!(matches!(decode(999, 1, &[]), Err(DecodeError::Newer { kind: 999, version: 1 })));
    let (kind, version, bytes) = encode(&samples()[0]).unwrap();
    let newer = decode(kind, version + 1, &bytes).unwrap_err();
    assert_eq!(newer.to_string(), "an event of kind 1, version 2, written by a newer version");
    assert!(matches!(decode(kind, 0, &bytes), Err(DecodeError::Unknown { .. })));
}

#[test]
fn a_byte_too_many_or_too_few_is_an_error() {
    for event in samples() {
        let (kind, version, mut bytes) = encode(&event).unwrap();
        if !bytes.is_empty() {
            assert!(decode(kind, version, &bytes[..bytes.len() - 1]).is_err(), "{event:?}");
        }
        bytes.push(0);
        assert!(
            matches!(decode(kind, version, &bytes), Err(DecodeError::Trailing { left: 1, .. })),
            "{event:?}"
        );
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic_or_believe_a_length(
        kind in prop::sample::select(KINDS.iter().map(|kind| kind.number).collect::<Vec<u16>>()),
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), 250u8..=255], 0..200),
    ) {
        if let Ok(event) = decode(kind, 1, &bytes) {
            prop_assert_eq!(decode(kind, 1, &encode(&event).unwrap().2).unwrap(), event);
        }
    }
}
