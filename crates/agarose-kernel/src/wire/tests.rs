//! Every message of both protocols, there and back.

use proptest::prelude::*;

use agarose_process::{Exit, ProcessId, ProcessState, StopEnd, StopOutcome};

use crate::spec::PassedLimit;

use super::{frame::decode, supervisor::*, worker::*, *};

fn id() -> ExecutionId {
    ExecutionId(TicketId(7))
}

fn check<M>(message: &M, t: &str)
where
    M: Serialize + for<'de> Deserialize<'de> + PartialEq + fmt::Debug,
{
    let json = serde_json::to_vec(message).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(value["t"], t);
    assert!(!value.to_string().contains("null"), "absent is absent, never null: {value}");
    assert_eq!(&decode::<M>(&json).unwrap(), message);
}

fn result(status: CellStatus) -> CellResult {
    CellResult {
        id: id(),
        status,
        interrupt_seen: false,
        error: Some(CellError { name: "ValueError".into(), ..CellError::default() }),
        files_read: vec![FileUse { path: "a.csv".into(), size: Some(3), ..FileUse::default() }],
        files_written: vec![],
        files_counters: FileCounters { read_seen: 1, written_seen: 0 },
        names: Some(NamesSeen {
            number: 3,
            known: [("x".into(), "011bfe7972e50712".into())].into(),
            unknown: vec!["o".into()],
            unbound: vec![],
        }),
        usage: Usage { wall_ms: 1, cpu_ms: 2, peak_rss_kb: 3 },
        warnings: vec!["w".into()],
    }
}

#[test]
fn every_message_to_a_worker_reads_back_as_it_was_written() {
    let generation = Generation(7);
    let hello = ToWorker::Hello {
        protocol: PROTOCOL,
        generation,
        workspace: "/w".into(),
        options: WorkerOptions::default(),
    };
    check(&hello, "hello");
    check(&ToWorker::Execute { id: id(), name: "<cell 3>".into(), ordinal: 3, capture: true }, "execute");
    check(&ToWorker::Shutdown {}, "shutdown");
    check(&ToWorker::Flushed {}, "flushed");
    check(&ToWorker::HostReply { call: 1, ok: true }, "host_reply");
}

#[test]
fn every_message_from_a_worker_reads_back_as_it_was_written() {
    check(&FromWorker::Ready(Ready { protocol: 1, language: "python".into(), ..Ready::default() }), "ready");
    check(&FromWorker::Started { id: id() }, "started");
    let parts = vec![DisplayPart { mime: "image/png".into(), len: 9 }];
    let display = Display {
        id: id(),
        kind: DisplayKind::Result,
        display_id: None,
        parts,
        metadata: serde_json::Map::new(),
    };
    check(&FromWorker::Display(display), "display");
    check(&FromWorker::ClearOutput { id: id(), wait: true }, "clear_output");
    check(&FromWorker::Flush { id: id() }, "flush");
    check(&FromWorker::Stray { channel: Channel::Stderr }, "stray");
    check(&FromWorker::Log { level: "info".into(), message: "m".into() }, "log");
    check(&FromWorker::Result(result(CellStatus::Interrupted)), "result");
    check(&FromWorker::HostCallGivenUp { id: id(), call: 4 }, "host_call_given_up");
    check(&FromWorker::HostCall { id: id(), call: 4, method: "files.read".into() }, "host_call");
}

#[test]
fn every_message_to_a_supervisor_reads_back_as_it_was_written() {
    let generation = Generation(7);
    let attach =
        ToSupervisor::Attach { protocol: 1, generation, secret: "s".into(), daemon: Daemon { pid: 4 } };
    check(&attach, "attach");
    check(&ToSupervisor::Execute { generation, id: id(), name: "<cell 1>".into(), ordinal: 1 }, "execute");
    check(&ToSupervisor::Interrupt { generation, id: id(), attempt: 1 }, "interrupt");
    check(&ToSupervisor::Stop { generation, id: None, term_grace_ms: 1, kill_grace_ms: 2 }, "stop");
    check(&ToSupervisor::Read { generation, id: Some(id()), from: 0, max: 10 }, "read");
    check(&ToSupervisor::Follow { generation, id: id(), on: true }, "follow");
    check(&ToSupervisor::Release { generation, id: id() }, "release");
    check(&ToSupervisor::HostReply { generation, call: 3, ok: false }, "host_reply");
    check(&ToSupervisor::Shutdown { generation }, "shutdown");
}

#[test]
fn every_message_from_a_supervisor_reads_back_as_it_was_written() {
    let process = ProcessId { pid: 4, start_time: 99 };
    check(
        &FromSupervisor::Attached(Attached {
            boot_id: "b".into(),
            supervisor: process,
            worker: None,
            state: WorkerState::Starting,
            executing: None,
            started: false,
            verdicts: vec![],
            ended: vec![id()],
            host_calls: vec![],
            kernel_end: 0,
            alone_ms: 0,
            confinement: vec![],
        }),
        "attached",
    );
    check(&FromSupervisor::Ready(Ready::default()), "ready");
    check(&FromSupervisor::StartFailed { reason: "r".into(), stderr_tail: String::new() }, "start_failed");
    check(&FromSupervisor::Started { id: id() }, "started");
    check(&FromSupervisor::Refused { id: id(), refusal: ExecuteRefusal::Busy }, "refused");
    check(&FromSupervisor::Progress { id: id(), stdout: 1, stderr: 2, end: 3, idle_ms: 4 }, "progress");
    check(&FromSupervisor::HostCallGivenUp { id: id(), call: 1 }, "host_call_given_up");
    check(&FromSupervisor::HostCall { id: id(), call: 1, method: "m".into() }, "host_call");
    let output = Output {
        stdout: StreamCount { seen: 3, retained: 3 },
        stream_end: 3,
        runs: vec![Run { channel: Channel::Stdout, start: 0, len: 3 }],
        ..Output::default()
    };
    let ended = FromSupervisor::Ended {
        id: id(),
        result: result(CellStatus::Ok),
        output: output.clone(),
        children_left: 0,
    };
    check(&ended, "ended");
    check(
        &FromSupervisor::WorkerGone(WorkerGone {
            exit: Exit::Signal { number: 9, core: false },
            reason: None,
            executing: Some(id()),
            started: true,
            output: Some(output),
            oom: Some(true),
            limit: Some(PassedLimit::Memory(2 << 30)),
            stderr_tail: String::new(),
            left: None,
            kernel_end: 0,
        }),
        "worker_gone",
    );
    let verdict = Verdict {
        id: id(),
        attempt: 1,
        verdict: VerdictWord::ReachedNobody,
        reason: Some(NobodyReached::AlreadyEnded),
    };
    check(&FromSupervisor::Verdict(verdict), "verdict");
    let outcome = StopOutcome {
        end: StopEnd::AliveAfterKill {
            left: vec![ProcessState { id: process, parent: 1, group: 1, state: 'D', command: "dd".into() }],
        },
        killed: vec![],
        killed_count: 0,
        escaped_count: 0,
    };
    check(&FromSupervisor::Stopped { id: Some(id()), outcome }, "stopped");
    check(&FromSupervisor::StopRefused { id: id(), executing: None }, "stop_refused");
    check(
        &FromSupervisor::Chunk {
            id: None,
            from: 0,
            next: 9,
            end: 9,
            gap: Some(Gap { dropped: 4 }),
            runs: vec![],
            held: true,
        },
        "chunk",
    );
    check(&FromSupervisor::ProtocolError { reason: "r".into() }, "protocol_error");
}

#[test]
fn an_unknown_message_is_refused_by_its_name_and_an_unknown_field_is_not() {
    let fault = decode::<FromWorker>(br#"{"t":"dance"}"#).unwrap_err().to_string();
    assert!(fault.contains("`dance`"), "{fault}");
    let started =
        decode::<FromWorker>(br#"{"t":"started","id":"00000000000000000000000007","tempo":3}"#).unwrap();
    assert_eq!(started, FromWorker::Started { id: id() });
}

proptest! {
    #[test]
    fn any_json_is_a_message_or_a_bounded_refusal(text in "\\{\"t\":\"[a-z_]{0,12}\"[ -~]{0,60}") {
        for fault in [
            decode::<FromWorker>(text.as_bytes()).err(),
            decode::<ToWorker>(text.as_bytes()).err(),
            decode::<ToSupervisor>(text.as_bytes()).err(),
            decode::<FromSupervisor>(text.as_bytes()).err(),
        ]
        .into_iter()
        .flatten()
        {
            prop_assert!(fault.to_string().len() < 600);
        }
    }

    #[test]
    fn a_result_reads_back_whatever_its_texts_are(name in ".{0,30}", message in ".{0,60}", line: Option<u64>, ticket: u128) {
        let mut written = result(CellStatus::Error);
        written.id = ExecutionId(TicketId(ticket & (u128::MAX >> 1)));
        written.error = Some(CellError { name, message, line, ..CellError::default() });
        let written = FromWorker::Result(written);
        let json = serde_json::to_vec(&written).unwrap();
        prop_assert_eq!(decode::<FromWorker>(&json).unwrap(), written);
    }

    #[test]
    fn output_and_its_counters_read_back_whatever_they_are(
        id in proptest::option::of(any::<u128>()),
        numbers: [u64; 5],
        runs in proptest::collection::vec((0_usize..3, any::<u64>(), any::<u64>()), 0..10),
        held: bool,
    ) {
        let [from, next, end, dropped, _] = numbers;
        let channels = [Channel::Stdout, Channel::Stderr, Channel::Display];
        let runs = runs.into_iter().map(|(channel, start, len)| Run { channel: channels[channel], start, len });
        let chunk = FromSupervisor::Chunk {
            id: id.map(|id| ExecutionId(TicketId(id))),
            from,
            next,
            end,
            gap: Some(Gap { dropped }),
            runs: runs.collect(),
            held,
        };
        let json = serde_json::to_vec(&chunk).unwrap();
        prop_assert_eq!(decode::<FromSupervisor>(&json).unwrap(), chunk);
    }

    #[test]
    fn a_request_reads_back_whatever_its_texts_are(secret in ".{0,40}", name in ".{0,40}", generation: u64, ordinal: u64) {
        let generation = Generation(generation);
        let requests = [
            ToSupervisor::Attach { protocol: 1, generation, secret, daemon: Daemon { pid: 1 } },
            ToSupervisor::Execute { generation, id: id(), name, ordinal },
        ];
        for request in requests {
            let json = serde_json::to_vec(&request).unwrap();
            prop_assert_eq!(decode::<ToSupervisor>(&json).unwrap(), request);
        }
    }
}
