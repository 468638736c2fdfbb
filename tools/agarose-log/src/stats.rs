//! `stats`: counts, in memory that does not grow with the log.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt, path::Path};

use agarose_core::{Event, Executed, Language, Word};

use crate::{
    args::StatsArgs,
    clock::{duration, rfc3339},
    error::LogError,
    json::Json,
    log::Log,
    ls::stories,
    say,
    screen::Screen,
    select::Selection,
    story::Place,
    words::{bytes, count},
};

/// Durations, counted in bands that are a sixteenth of their value wide.
#[derive(Clone, Debug, Default)]
struct Durations {
    bands: BTreeMap<u32, u64>,
    count: u64,
    longest: u64,
}

/// Parts of a power of two: what is told is at most this much too long.
const PARTS: u64 = 16;

fn band(millis: u64) -> u32 {
    if millis < PARTS {
        return u32::try_from(millis).unwrap_or(0);
    }
    let power = millis.ilog2();
    let part = (millis >> (power - PARTS.ilog2())) & (PARTS - 1);
    power * 16 + u32::try_from(part).unwrap_or(0)
}

/// The longest duration of a band.
fn end_of(band: u32) -> u64 {
    if u64::from(band) < PARTS {
        return band.into();
    }
    let (power, part) = (band / 16, u64::from(band % 16));
    let step = 1_u64 << (power - PARTS.ilog2());
    (PARTS + part).saturating_mul(step).saturating_add(step - 1)
}

impl Durations {
    fn add(&mut self, millis: u64) {
        *self.bands.entry(band(millis)).or_default() += 1;
        self.count = self.count.saturating_add(1);
        self.longest = self.longest.max(millis);
    }

    /// The duration that this many of a hundred do not pass.
    fn percentile(&self, of_hundred: u64) -> u64 {
        let rank = (self.count.saturating_mul(of_hundred)).div_ceil(100).max(1);
        let mut seen = 0_u64;
        for (band, n) in &self.bands {
            seen = seen.saturating_add(*n);
            if seen >= rank {
                return end_of(*band).min(self.longest);
            }
        }
        self.longest
    }

    fn json(&self) -> Json {
        if self.count == 0 {
            return Json::Absent;
        }
        Json::object([
            ("count", Json::Number(self.count)),
            ("p50_ms", Json::Number(self.percentile(50))),
            ("p95_ms", Json::Number(self.percentile(95))),
            ("max_ms", Json::Number(self.longest)),
        ])
    }

    fn text(&self) -> String {
        format!(
            "half within {}, 95 of 100 within {}, the longest {}",
            duration(self.percentile(50)),
            duration(self.percentile(95)),
            duration(self.longest)
        )
    }
}

/// Everything that is counted.
#[derive(Default)]
struct Counts {
    first: Option<Place>,
    last: Option<Place>,
    events: u64,
    unreadable: u64,
    kinds: BTreeMap<u16, (String, u64)>,
    sessions: u64,
    starts: u64,
    processes: BTreeMap<Language, Processes>,
    interrupts: u64,
    kills: u64,
    words: BTreeMap<Word, u64>,
    open: u64,
    submitted: u64,
    executed: u64,
    waited: Durations,
    ran: Durations,
    seen: u64,
    dropped: u64,
}

/// The lives of one interpreter's processes.
#[derive(Clone, Copy, Default)]
struct Processes {
    started: u64,
    failed: u64,
    gone: u64,
}

impl Counts {
    fn event(&mut self, event: &Event) {
        match event {
            Event::DaemonStarted(_) => self.starts += 1,
            Event::SessionOpened { .. } => self.sessions += 1,
            Event::TicketQueued(_) => self.submitted += 1,
            Event::KernelStarting { language, .. } => {
                self.processes.entry(*language).or_default().started += 1
            }
            Event::KernelStartFailed { language, .. } => {
                self.processes.entry(*language).or_default().failed += 1
            }
            Event::KernelGone { language, .. } => self.processes.entry(*language).or_default().gone += 1,
            Event::InterruptRequested { .. } => self.interrupts += 1,
            Event::KillRequested { .. } => self.kills += 1,
            Event::ResultReceived { output, .. } | Event::OutputKept { output, .. } => {
                for counters in [&output.stdout, &output.stderr] {
                    self.seen = self.seen.saturating_add(counters.seen());
                    self.dropped = self.dropped.saturating_add(counters.dropped());
                }
            }
            _ => {}
        }
    }
}

fn gather(log: &Log, selection: &Selection) -> Result<Counts, LogError> {
    let mut counts = Counts::default();
    for moment in selection.walk(log) {
        let moment = moment?;
        let place = moment.place();
        counts.first.get_or_insert(place);
        counts.last = Some(place);
        counts.events += 1;
        counts.kinds.entry(moment.kind()).or_insert_with(|| (moment.kind_name(), 0)).1 += 1;
        match moment.decode() {
            Ok(event) => counts.event(&event),
            Err(_) => counts.unreadable += 1,
        }
    }
    stories(log, selection, |story| {
        match &story.end {
            Some(end) => {
                *counts.words.entry(end.word).or_default() += 1;
                if end.executed == Executed::Yes {
                    counts.executed += 1;
                    if let Some(ran) = story.ran() {
                        counts.ran.add(ran);
                    }
                }
            }
            None => counts.open += 1,
        }
        if let Some(waited) = story.waited() {
            counts.waited.add(waited);
        }
        Ok(true)
    })?;
    Ok(counts)
}

/// Bytes on the disk by part of the directory.
fn disk(directory: &Path) -> Vec<(&'static str, u64)> {
    ["segments", "store", "blobs", "snapshots"]
        .into_iter()
        .map(|part| (part, tree_bytes(&directory.join(part))))
        .collect()
}

fn tree_bytes(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    entries.flatten().fold(0, |sum: u64, entry| {
        let Ok(metadata) = entry.metadata() else { return sum };
        let bytes = if metadata.is_dir() { tree_bytes(&entry.path()) } else { metadata.blocks() * 512 };
        sum.saturating_add(bytes)
    })
}

/// Runs `stats`.
pub(crate) fn run(log: &Log, args: &StatsArgs, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let selection = Selection::new(&args.filter, &[])?;
    let counts = gather(log, &selection)?;
    let disk = disk(log.directory());
    if screen.json {
        screen.value(&json(&counts, &disk))?;
        return Ok(0);
    }
    for line in lines(&counts, &disk) {
        screen.line(&line)?;
    }
    Ok(0)
}

fn json(counts: &Counts, disk: &[(&'static str, u64)]) -> Json {
    let numbers = |pairs: Vec<(String, u64)>| {
        Json::Object(pairs.into_iter().map(|(name, n)| (name, Json::Number(n))).collect())
    };
    let words = counts.words.iter().map(|(word, n)| (word.as_str().to_owned(), *n)).collect();
    let kinds = counts.kinds.values().cloned().collect();
    let processes = counts.processes.iter().map(|(language, p)| {
        let json = Json::object([
            ("started", Json::Number(p.started)),
            ("start_failed", Json::Number(p.failed)),
            ("gone", Json::Number(p.gone)),
        ]);
        (language.to_string(), json)
    });
    Json::object([
        ("events", Json::Number(counts.events)),
        ("unreadable", Json::Number(counts.unreadable)),
        ("first_at", Json::maybe(counts.first, |first| Json::Text(rfc3339(first.at.wall)))),
        ("last_at", Json::maybe(counts.last, |last| Json::Text(rfc3339(last.at.wall)))),
        ("sessions", Json::Number(counts.sessions)),
        ("daemon_starts", Json::Number(counts.starts)),
        ("submitted", Json::Number(counts.submitted)),
        ("executed", Json::Number(counts.executed)),
        ("open", Json::Number(counts.open)),
        ("ended", numbers(words)),
        ("waited", counts.waited.json()),
        ("ran", counts.ran.json()),
        ("kernels", Json::Object(processes.collect())),
        ("interrupts", Json::Number(counts.interrupts)),
        ("kills", Json::Number(counts.kills)),
        (
            "output",
            Json::object([
                ("seen", Json::Number(counts.seen)),
                ("dropped", Json::Number(counts.dropped)),
                ("unit", Json::text("bytes")),
            ]),
        ),
        ("kinds", numbers(kinds)),
        ("disk_bytes", numbers(disk.iter().map(|(part, n)| ((*part).to_owned(), *n)).collect())),
    ])
}

fn lines(counts: &Counts, disk: &[(&'static str, u64)]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |name: &str, text: String| lines.push(format!("{name:<10}  {text}"));
    let span = match (counts.first, counts.last) {
        (Some(first), Some(last)) => {
            format!(", from {} to {}", rfc3339(first.at.wall), rfc3339(last.at.wall))
        }
        _ => String::new(),
    };
    line("events", format!("{}{span}", counts.events));
    if counts.unreadable > 0 {
        line("unreadable", count(counts.unreadable, "event", "events"));
    }
    line("daemon", format!("started {}", count(counts.starts, "time", "times")));
    line("sessions", counts.sessions.to_string());
    let mut words: Vec<String> =
        counts.words.iter().map(|(word, n)| format!("{n} {}", say::word(*word))).collect();
    words.push(format!("{} open", counts.open));
    line("tickets", format!("{} submitted: {}", counts.submitted, words.join(", ")));
    if counts.waited.count > 0 {
        line("waited", counts.waited.text());
    }
    if counts.ran.count > 0 {
        line("ran", counts.ran.text());
    }
    for (language, p) in &counts.processes {
        line(
            language.as_str(),
            format!(
                "{}, {} did not start, {} gone",
                count(p.started, "process started", "processes started"),
                p.failed,
                p.gone
            ),
        );
    }
    line(
        "stops",
        format!(
            "{}, {}",
            count(counts.interrupts, "interrupt", "interrupts"),
            count(counts.kills, "stop by force", "stops by force")
        ),
    );
    line("printed", format!("{}, of which {} were not kept", bytes(counts.seen), bytes(counts.dropped)));
    let total = disk.iter().map(|(_, n)| n).sum();
    let parts: Vec<String> = disk.iter().map(|(part, n)| format!("{part} {}", bytes(*n))).collect();
    line("disk", format!("{} ({})", bytes(total), parts.join(", ")));
    for (name, n) in counts.kinds.values() {
        lines.push(format!("  {name:<20} {n}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_at_most_a_sixteenth_too_long() {
        for millis in [0, 1, 15, 16, 17, 100, 999, 1000, 123_456, 86_400_000, u64::MAX / 2, u64::MAX] {
            let mut durations = Durations::default();
            durations.add(millis);
            durations.add(u64::MAX);
            let told = durations.percentile(50);
            assert!(
                told >= millis && u128::from(told) <= u128::from(millis) * 17 / 16 + 1,
                "{millis} {told}"
            );
        }
    }

    #[test]
    fn percentiles_of_a_thousand_durations_are_where_they_belong() {
        let mut durations = Durations::default();
        (1..=1000).for_each(|millis| durations.add(millis));
        assert!((500..=532).contains(&durations.percentile(50)));
        assert!((950..=1000).contains(&durations.percentile(95)));
        assert_eq!(durations.percentile(100), 1000);
    }
}
