//! What `/proc` says: who is there, since when, and in which group.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
    time::Duration,
};

use crate::outcome::{ProcessId, ProcessState};

/// The id of this boot of the machine.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn boot_id() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
}

/// When a process started, in clock ticks since the boot; `None` when there is no such process.
#[must_use]
pub fn start_time(pid: i32) -> Option<u64> {
    process_state(pid).map(|state| state.id.start_time)
}

/// Whether this very process is there and not a zombie.
#[must_use]
pub fn is_running(id: ProcessId) -> bool {
    process_state(id.pid).is_some_and(|state| state.id == id && !state.is_dead())
}

impl ProcessState {
    /// Whether it has ended and only waits for its parent to notice.
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// A process as it is now; `None` when there is none with this number.
#[must_use]
pub fn process_state(pid: i32) -> Option<ProcessState> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads a line of `/proc/PID/stat`. The name of the program may hold spaces and parentheses, so
/// the fields are counted from its last parenthesis.
fn parse_stat(stat: &[u8]) -> Option<ProcessState> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(stat.get(..open)?).ok()?.trim().parse().ok()?;
    let command = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // Field 22 of the line; the group was field 5.
    let start_time = fields.nth(16)?.parse().ok()?;
    Some(ProcessState { id: ProcessId { pid, start_time }, parent, group, state, command })
}

/// Every process that can be seen, zombies too, by number. One that comes or goes meanwhile may
/// be missing.
#[must_use]
pub fn processes() -> Vec<ProcessState> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found: Vec<ProcessState> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(process_state)
        .collect();
    found.sort_by_key(|process| process.id);
    found
}

/// The members of a process group, zombies too.
#[must_use]
pub fn group_members(group: i32) -> Vec<ProcessState> {
    processes().into_iter().filter(|process| process.group == group).collect()
}

/// Everything that descends from `ancestor`, without it, zombies too.
///
/// Under a child subreaper this is everything that was ever started below it, whatever group or
/// session it went to: an orphan becomes the subreaper's child.
#[must_use]
pub fn descendants(ancestor: i32) -> Vec<ProcessState> {
    let all = processes();
    let mut children: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (index, process) in all.iter().enumerate() {
        children.entry(process.parent).or_default().push(index);
    }
    let mut found = BTreeSet::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        for &index in children.get(&parent).into_iter().flatten() {
            if let Some(process) = all.get(index)
                && found.insert(index)
            {
                parents.push(process.id.pid);
            }
        }
    }
    all.into_iter()
        .enumerate()
        .filter(|(index, _)| found.contains(index))
        .map(|(_, process)| process)
        .collect()
}

/// Everything that was started with this variable in its environment (`NAME=value`) and that we
/// may look at, without zombies.
///
/// It finds what a dead supervisor left behind, also in other groups and sessions, and cannot
/// take a stranger for it. It does not find a program that was started with an emptied environment.
#[must_use]
pub fn tagged(variable: &str) -> Vec<ProcessState> {
    let wanted = variable.as_bytes();
    let carries = |process: &ProcessState| {
        fs::read(Path::new("/proc").join(process.id.pid.to_string()).join("environ"))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == wanted))
    };
    processes().into_iter().filter(|process| !process.is_dead() && carries(process)).collect()
}

/// How much processor time a process has used, in all its threads and without its children; of a
/// zombie too. `None` when there is no such process.
#[must_use]
pub fn cpu_time(pid: i32) -> Option<Duration> {
    parse_cpu_time(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_cpu_time(stat: &[u8]) -> Option<Duration> {
    /// The unit in which `/proc` counts, on every machine that Linux runs on (`USER_HZ`).
    const TICK: Duration = Duration::from_millis(10);
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    // Fields 14 and 15 of the line: in user code, and in the system.
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    Some(TICK * ticks()?.checked_add(ticks()?)?)
}

/// How often the system has killed for want of memory since the boot, if it says so.
#[must_use]
pub fn machine_oom_kills() -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_whose_name_looks_like_fields_is_read_right() {
        let line = b"42 (a) R 1 (b) S 7 9 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 5555 1 1";
        let state = parse_stat(line).unwrap();
        assert_eq!(
            state,
            ProcessState {
                id: ProcessId { pid: 42, start_time: 5555 },
                parent: 7,
                group: 9,
                state: 'S',
                command: "a) R 1 (b".into()
            }
        );
    }

    #[test]
    fn processor_time_is_that_of_user_code_and_of_the_system() {
        let line = b"42 (a) R 1 (b) S 7 9 9 0 -1 4194560 1 0 0 0 120 30 9 9 20 0 1 0 5555 1 1";
        assert_eq!(parse_cpu_time(line), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn another_start_time_is_another_process() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let id = ProcessId { pid, start_time: start_time(pid).unwrap() };
        assert!(is_running(id));
        assert!(!is_running(ProcessId { start_time: id.start_time + 1, ..id }));
    }

    #[test]
    fn a_boot_has_an_id() {
        assert_eq!(boot_id().unwrap().len(), 36);
    }
}
