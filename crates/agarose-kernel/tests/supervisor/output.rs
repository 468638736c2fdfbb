//! What cells put out: in order, bounded, counted, and never in anybody's way.

use std::{fs, thread, time::Duration};

use agarose_kernel::wire::{Channel, supervisor::FromSupervisor};

use crate::{
    lab::{Kernel, id, wait_for},
    tests,
};

tests! {
    stdout_stderr_and_displays_keep_their_order,
    descriptors_children_and_threads_are_captured,
    a_hundred_megabytes_in_lines_are_bounded_and_counted,
    a_hundred_megabytes_in_one_write_are_bounded_and_counted,
    a_full_stderr_does_not_hold_up_stdout,
    bytes_that_are_not_text_come_back_as_they_were,
    output_between_cells_is_the_kernel_s_and_not_the_next_cell_s,
    a_daemon_that_does_not_read_does_not_hold_up_the_cell,
    progress_is_told_to_a_follower_who_reads_all_of_it,
    large_displays_are_kept_whole_or_dropped_whole,
    a_child_that_prints_for_ever_does_not_hold_up_the_result,
}

fn stdout_stderr_and_displays_keep_their_order() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    let source = "import sys\nfor i in range(20):\n    print('o', i)\n    print('e', i, file=sys.stderr)\n    display(i)\n";
    let end = daemon.run(id(1), source);
    let order: Vec<Channel> = end.output.runs.iter().map(|run| run.channel).collect();
    assert_eq!(order, [Channel::Stdout, Channel::Stderr, Channel::Display].repeat(20));
}

fn descriptors_children_and_threads_are_captured() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    let source = "import os, subprocess, threading\n\
                  os.write(1, b'descriptor\\n')\n\
                  subprocess.run(['echo', 'child'])\n\
                  t = threading.Thread(target=lambda: print('thread')); t.start(); t.join()";
    assert_eq!(daemon.run(id(1), source).text(Channel::Stdout), "descriptor\nchild\nthread\n");
}

fn memory_kib(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Runs a cell that prints 100 MB and looks at what is kept, and at what it has cost.
fn a_hundred_megabytes(source: &str) {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    let before = memory_kib(kernel.supervisor.pid);
    let end = daemon.run(id(1), source);
    assert_eq!((end.output.stdout.seen, end.output.stdout.retained), (100_000_000, 1 << 20));
    assert_eq!(end.body, b"");
    let (kept, dropped) = daemon.read_all(Some(id(1)));
    assert_eq!(kept[&Channel::Stdout].len(), 1 << 20);
    assert_eq!(dropped, 100_000_000 - (1 << 20));
    assert!(kept[&Channel::Stdout].starts_with(b"xxxx") && kept[&Channel::Stdout].ends_with(b"xend\n"));
    let grown = memory_kib(kernel.supervisor.pid).saturating_sub(before);
    assert!(grown < 3 << 10, "the supervisor has grown by {grown} KiB");
}

fn a_hundred_megabytes_in_lines_are_bounded_and_counted() {
    a_hundred_megabytes("line = 'x' * 99\nfor i in range(999_999): print(line)\nprint('x' * 96 + 'end')");
}

fn a_hundred_megabytes_in_one_write_are_bounded_and_counted() {
    a_hundred_megabytes("import sys\nsys.stdout.write('x' * 99_999_996 + 'end\\n'); None");
}

fn a_full_stderr_does_not_hold_up_stdout() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    let source = "import subprocess, sys\n\
                  code = \"import os\\nfor i in range(20): os.write(2, b'e' * 500_000); os.write(1, b'o' * 500_000)\"\n\
                  subprocess.run([sys.executable, '-c', code]).returncode";
    let end = daemon.run(id(1), source);
    assert_eq!((end.output.stdout.seen, end.output.stderr.seen), (10_000_000, 10_000_000));
}

fn bytes_that_are_not_text_come_back_as_they_were() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    let end = daemon.run(id(1), "import os\nos.write(1, bytes(range(256)));");
    assert_eq!(end.body, (0..=255).collect::<Vec<u8>>());
}

fn output_between_cells_is_the_kernel_s_and_not_the_next_cell_s() {
    let kernel = Kernel::stub();
    let mut daemon = kernel.attach_ready();
    let first =
        daemon.run(id(1), "import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 0.2; echo late'])");
    assert_eq!(first.output.stream_end, 0);
    let kernel_text = |daemon: &mut crate::lab::Daemon| daemon.read_all(None).0[&Channel::Stdout].clone();
    wait_for("the late word", || kernel_text(&mut daemon) == b"late\n");
    assert_eq!(daemon.run(id(2), "print('own')").text(Channel::Stdout), "own\n");
    // A worker that knows better says so itself.
    daemon.run(id(3), "send({'t': 'stray', 'channel': 'stderr'}, b'of a thread')");
    assert_eq!(daemon.read_all(None).0[&Channel::Stderr], b"of a thread");
}

fn a_daemon_that_does_not_read_does_not_hold_up_the_cell() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.follow(id(1));
    let done = kernel.workspace().join("done");
    daemon.execute(
        id(1),
        "for i in range(300_000): print('x' * 50)\nopen('done', 'w').close()\nimport time\nwhile True: time.sleep(1)",
    );
    // Ask for far more than the socket holds, and take none of it.
    let mut bytes = Vec::new();
    for _ in 0..200 {
        let generation = kernel.spec.generation;
        let read = agarose_kernel::wire::supervisor::ToSupervisor::Read {
            generation,
            id: Some(id(1)),
            from: 0,
            max: 1 << 20,
        };
        agarose_kernel::wire::frame::encode(&read, &[], &mut bytes).unwrap();
    }
    std::io::Write::write_all(&mut daemon.stream, &bytes).unwrap();
    wait_for("the cell goes on", || done.exists());
    assert!(memory_kib(kernel.supervisor.pid) < 40 << 10);
}

fn progress_is_told_to_a_follower_who_reads_all_of_it() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.execute(id(1), "import time\nfor i in range(50): print(i); time.sleep(0.01)");
    daemon.started(id(1));
    daemon.follow(id(1));
    let (mut from, mut text, mut reports) = (0, Vec::new(), 0);
    loop {
        let (message, _) = daemon.next().unwrap();
        match message {
            FromSupervisor::Progress { end, stdout, .. } => {
                reports += 1;
                assert_eq!(end, stdout);
                let chunk = daemon.read(Some(id(1)), from, 1 << 20);
                assert_eq!(chunk.dropped, 0);
                text.extend(chunk.body);
                from = chunk.next;
            }
            FromSupervisor::Ended { output, .. } => {
                let chunk = daemon.read(Some(id(1)), from, 1 << 20);
                text.extend(chunk.body);
                assert_eq!(output.stream_end, chunk.next);
                break;
            }
            _ => {}
        }
    }
    assert!((2..=50).contains(&reports), "{reports}");
    let wanted: String = (0..50).map(|number| format!("{number}\n")).collect();
    assert_eq!(String::from_utf8(text).unwrap(), wanted);
}

fn large_displays_are_kept_whole_or_dropped_whole() {
    let kernel = Kernel::with(crate::lab::stub(), |spec| spec.spool.displays = 1 << 20);
    let mut daemon = kernel.attach_ready();
    let source = "print('before')\nsys.stdout.flush()\n\
                  for i in range(9):\n    body = bytes([i]) * 200_000\n    \
                  send({'t': 'display', 'id': id, 'kind': 'display', 'parts': [{'mime': 'x', 'len': len(body)}]}, body)\n\
                  print('after'); sys.stdout.flush()";
    let end = daemon.run(id(1), source);
    let display = end.output.display;
    assert!(display.seen > 9 * 200_000 && display.retained < 1 << 20, "{display:?}");
    let (kept, dropped) = daemon.read_all(Some(id(1)));
    assert_eq!(dropped, display.seen - display.retained);
    assert_eq!(kept[&Channel::Stdout], b"before\nafter\n");
    let mut decoder = agarose_kernel::wire::frame::Decoder::new(agarose_kernel::wire::frame::Limits::USUAL);
    decoder.push(&kept[&Channel::Display]);
    let mut first_bytes = Vec::new();
    while let Some(frame) = decoder.next_frame().unwrap() {
        assert_eq!(frame.body.len(), 200_000);
        first_bytes.push(frame.body[0]);
    }
    assert_eq!(first_bytes, [0, 1, 7, 8]);
    assert_eq!(decoder.pending(), b"");
}

fn a_child_that_prints_for_ever_does_not_hold_up_the_result() {
    let kernel = Kernel::real();
    let mut daemon = kernel.attach_ready();
    daemon.run(id(1), "import subprocess; p = subprocess.Popen(['yes'])");
    thread::sleep(Duration::from_millis(50));
    assert_eq!(daemon.run(id(2), "p.kill(); p.wait(); 1").children_left, 0);
}
