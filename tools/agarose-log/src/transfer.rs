//! `salvage`, `export`, `import` and `compact`: whole logs from one place to another.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::Path,
};

use agarose_journal::{
    Options,
    export::{self, ExportError},
    inspect::{self, InspectError, SalvageError},
};

use crate::{
    args::{CompactArgs, ExportArgs, ImportArgs, SalvageArgs},
    error::LogError,
    json::{Json, hex},
    log::Log,
    screen::Screen,
    verify::{finding_json, finding_line},
    words::count,
};

/// Runs `salvage DIR`. What is lost is named; a loss exits with 1.
pub(crate) fn salvage(directory: &Path, args: &SalvageArgs, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let report = inspect::salvage(directory, &args.into).map_err(|source| match source {
        SalvageError::Inspect(InspectError::NotAJournal { path }) => LogError::NoLog { directory: path },
        source => LogError::Salvage { into: args.into.clone(), source },
    })?;
    let kept = (report.head.sequence.saturating_add(1)).saturating_sub(report.first);
    let damaged = report.findings.iter().any(|finding| finding.severity == inspect::Severity::Damage);
    let whole = !damaged && report.lost_contents.is_empty() && report.beyond.is_empty();
    if screen.json {
        let beyond = report.beyond.iter().map(|beyond| {
            Json::object([
                ("record", Json::Number(beyond.record)),
                ("first_seq", Json::Number(beyond.first)),
                ("last_seq", Json::Number(beyond.last)),
            ])
        });
        screen.value(&Json::object([
            ("into", Json::text(args.into.display())),
            ("whole", Json::Bool(whole)),
            ("events", Json::Number(kept)),
            ("first_seq", Json::Number(report.first)),
            ("last_seq", Json::Number(report.head.sequence)),
            ("head", Json::Text(hex(&report.head.hash))),
            ("lost_contents", Json::List(report.lost_contents.iter().map(Json::of).collect())),
            ("beyond", Json::List(beyond.collect())),
            ("findings", Json::List(report.findings.iter().map(finding_json).collect())),
        ]))?;
        return Ok(u8::from(!whole));
    }
    for finding in &report.findings {
        screen.line(&finding_line(finding))?;
    }
    for blob in &report.lost_contents {
        screen.line(&format!("lost: content {blob}"))?;
    }
    for beyond in &report.beyond {
        screen.line(&format!(
            "apart: record {} (events {} to {}) is whole and hangs on nothing; it is in beyond.jsonl",
            beyond.record, beyond.first, beyond.last
        ))?;
    }
    screen.line(&format!(
        "{} copied to {} (events {} to {}, head {}){}",
        count(kept, "event is", "events are"),
        args.into.display(),
        report.first,
        report.head.sequence,
        hex(&report.head.hash),
        if whole { "; nothing is lost" } else { "" }
    ))?;
    Ok(u8::from(!whole))
}

/// Runs `export [FILE]`.
pub(crate) fn export(log: &Log, args: &ExportArgs, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let failed = |error| match error {
        ExportError::Write(error) => LogError::Output(error),
        other => LogError::Export(other),
    };
    let Some(file) = args.file.as_deref().filter(|file| *file != Path::new("-")) else {
        export::export(log.reader(), screen.out).map_err(failed)?;
        return Ok(0);
    };
    let write = |source| LogError::File { path: file.to_owned(), source };
    let mut out = BufWriter::new(File::create(file).map_err(write)?);
    let head = export::export(log.reader(), &mut out).map_err(|error| match error {
        ExportError::Write(error) => write(error),
        other => LogError::Export(other),
    })?;
    out.flush().and_then(|()| out.get_ref().sync_all()).map_err(write)?;
    let first = log.first();
    if screen.json {
        screen.value(&Json::object([
            ("file", Json::text(file.display())),
            ("first_seq", Json::Number(first)),
            ("last_seq", Json::Number(head.sequence)),
            ("head", Json::Text(hex(&head.hash))),
        ]))?;
    } else {
        screen.line(&format!(
            "{} written to {} (head {})",
            count(head.sequence.saturating_add(1).saturating_sub(first), "event is", "events are"),
            file.display(),
            hex(&head.hash)
        ))?;
    }
    Ok(0)
}

/// Runs `import FILE DIR`.
pub(crate) fn import(args: &ImportArgs, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    let mut lines: Box<dyn BufRead> = if args.file == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        let file = File::open(&args.file);
        let file = file.map_err(|source| LogError::Source { path: args.file.clone(), source })?;
        Box::new(BufReader::new(file))
    };
    let head = export::import(&mut *lines, &args.into, &Options::default())
        .map_err(|source| LogError::Import { file: args.file.clone(), into: args.into.clone(), source })?;
    if screen.json {
        screen.value(&Json::object([
            ("into", Json::text(args.into.display())),
            ("last_seq", Json::Number(head.sequence)),
            ("head", Json::Text(hex(&head.hash))),
        ]))?;
    } else {
        screen.line(&format!(
            "the log in {} ends with event {} (head {}), as the one that was exported",
            args.into.display(),
            head.sequence,
            hex(&head.hash)
        ))?;
    }
    Ok(0)
}

/// Runs `compact --dry-run`: what a compaction could put into an archive.
pub(crate) fn compact(log: &Log, args: &CompactArgs, screen: &mut Screen<'_>) -> Result<u8, LogError> {
    if !args.dry_run {
        return Err(LogError::Usage {
            what: "the inspector compacts nothing; `--dry-run` shows what could be".to_owned(),
        });
    }
    let (first, last) = (log.first(), log.head().sequence);
    let newest = log.snapshots()?.map(|snapshot| snapshot.sequence).max();
    let events = newest.map_or(0, |newest| newest.saturating_add(1).saturating_sub(first));
    if screen.json {
        screen.value(&Json::object([
            ("first_seq", Json::Number(first)),
            ("last_seq", Json::Number(last)),
            ("snapshot_seq", Json::maybe(newest, Json::Number)),
            ("could_be_archived", Json::Number(events)),
        ]))?;
        return Ok(0);
    }
    screen.line(&match newest {
        Some(newest) => format!(
            "{} of {} are older than the newest snapshot (event {newest}) and could be archived",
            events,
            count(last.saturating_add(1).saturating_sub(first), "event", "events")
        ),
        None => "there is no snapshot yet, so nothing could be archived".to_owned(),
    })?;
    Ok(0)
}
