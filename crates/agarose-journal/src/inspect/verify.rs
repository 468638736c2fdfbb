//! Checking a journal, at two depths.

use std::{io, path::Path};

use super::{Finding, InspectError, Inspector, Severity, at};
use crate::{
    fit::says,
    reader::{Commit, Reader},
    record::Head,
};

/// How closely to verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The segments, and that the store fits them.
    Segments,
    /// Every record from the first event on, every event's contents, every attachment, blob file and snapshot.
    Everything,
}

/// What verifying found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// The id of the journal.
    pub journal: [u8; 16],
    /// The first event there is.
    pub first: u64,
    /// Where the log stands, as far as it hangs together.
    pub head: Head,
    /// How many records were checked one by one.
    pub records: u64,
    /// How many events were decoded.
    pub events: u64,
    /// How many contents (attachments and blob files) were checked.
    pub contents: u64,
    /// How many snapshots are good.
    pub snapshots: u64,
    /// What is not as it should be.
    pub findings: Vec<Finding>,
}

impl VerifyReport {
    /// Whether nothing acknowledged is damaged or gone.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity < Severity::Damage)
    }
}

/// Checks the journal in a directory without writing to it.
///
/// # Errors
/// There is no journal, or the disk says no. Damage is in the report.
pub fn verify(directory: &Path, depth: Depth) -> Result<VerifyReport, InspectError> {
    let inspector = Inspector::open(directory)?;
    let reader = inspector.reader();
    let mut report = VerifyReport {
        journal: reader.journal(),
        first: reader.first(),
        head: reader.head(),
        records: 0,
        events: 0,
        contents: 0,
        snapshots: 0,
        findings: inspector.findings.clone(),
    };
    if depth == Depth::Everything {
        verify_records(reader, &mut report);
        verify_blobs(&inspector, &mut report)?;
    }
    for snapshot in inspector.snapshots()? {
        match snapshot {
            Ok(_) => report.snapshots += 1,
            Err(finding) => report.findings.push(*finding),
        }
    }
    Ok(report)
}

fn verify_records(reader: &Reader, report: &mut VerifyReport) {
    let mut before: Option<Commit> = None;
    let mut wall = 0;
    for commit in reader.commits(report.first) {
        let commit = match commit {
            Ok(commit) => commit,
            Err(error) => {
                report.findings.push(Finding::new(Severity::Damage, says(&error)));
                return;
            }
        };
        let about = |severity, what: String| Finding {
            record: Some(commit.record),
            sequence: Some(commit.first),
            ..Finding::new(severity, what)
        };
        if before
            .as_ref()
            .is_some_and(|before| before.hash != commit.previous || before.record + 1 != commit.record)
        {
            report
                .findings
                .push(about(Severity::Damage, "the record does not continue the one before it".to_owned()));
        }
        for entry in &commit.entries {
            let sequence = Some(entry.sequence);
            match entry.event.decode() {
                Ok(_) => report.events += 1,
                Err(error) => {
                    let tickets = entry.event.ticket.into_iter().collect();
                    let finding = about(Severity::Damage, error.to_string());
                    report.findings.push(Finding { sequence, tickets, ..finding });
                }
            }
            if entry.event.stamp.wall < wall {
                let back = wall - entry.event.stamp.wall;
                let finding = about(Severity::Note, format!("the wall clock went back by {back} ms"));
                report.findings.push(Finding { sequence, ..finding });
            }
            wall = entry.event.stamp.wall;
        }
        for blob in &commit.attachments {
            match reader.blob(blob) {
                Ok(Some(_)) => report.contents += 1,
                Ok(None) => {
                    report.findings.push(about(Severity::Damage, format!("its attachment {blob} is missing")))
                }
                Err(error) => report.findings.push(about(Severity::Damage, says(&error))),
            }
        }
        report.records += 1;
        before = Some(commit);
    }
}

fn verify_blobs(inspector: &Inspector, report: &mut VerifyReport) -> Result<(), InspectError> {
    let blobs = inspector.reader.blobs();
    for blob in blobs.list().map_err(at(&inspector.places.blobs))? {
        let read = blobs.open(&blob)?.map(|mut file| io::copy(&mut file, &mut io::sink()));
        match read {
            Some(Ok(_)) => report.contents += 1,
            Some(Err(error)) => {
                let what = format!("blob {blob}: {error}");
                report.findings.push(Finding::in_file(Severity::Damage, &inspector.places.blobs, what));
            }
            None => {}
        }
    }
    Ok(())
}
