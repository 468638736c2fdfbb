//! Following a live log: its newest segments are looked at when they have changed.
//!
//! Only segments are read, through a directory of links to them, so that a large store is not copied
//! again and again. Events that are in no segment any more are read once more from the whole log.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{
    error::LogError,
    log::{Log, Moment},
};

/// A file that changed less long ago may change again without a new time: the kernel's clock for files
/// moves in steps of up to 10 ms.
const SETTLED: Duration = Duration::from_millis(100);

/// The end of a log, as far as it has been seen.
pub(crate) struct Follow {
    directory: PathBuf,
    /// The first event that has not been seen.
    next: u64,
    /// The segments as they were, once they can be believed to have settled.
    seen: Option<Vec<(OsString, SystemTime)>>,
}

impl Follow {
    /// Follows a log from an event on.
    pub(crate) fn new(directory: &Path, next: u64) -> Self {
        Self { directory: directory.to_owned(), next, seen: None }
    }

    /// Hands over what has been appended since; says whether there was anything.
    pub(crate) fn more(
        &mut self,
        mut each: impl FnMut(Moment) -> Result<(), LogError>,
    ) -> Result<bool, LogError> {
        let segments = self.segments()?;
        if self.seen.as_ref() == Some(&segments) {
            return Ok(false);
        }
        let newest = segments.iter().map(|(_, changed)| *changed).max();
        let settled = newest.is_some_and(|newest| newest.elapsed().is_ok_and(|age| age > SETTLED));
        let log = self.end_of_log(&segments)?;
        let head = log.head().sequence;
        let any = head >= self.next;
        for moment in log.events(self.next, head) {
            let moment = moment?;
            self.next = moment.sequence.saturating_add(1);
            each(moment)?;
        }
        self.seen = settled.then_some(segments);
        Ok(any)
    }

    fn segments(&self) -> Result<Vec<(OsString, SystemTime)>, LogError> {
        let directory = self.directory.join("segments");
        let failed = |source| LogError::Source { path: directory.clone(), source };
        let mut segments = Vec::new();
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if Path::new(&name).extension().is_none_or(|extension| extension != "seg") {
                continue;
            }
            match entry.metadata().and_then(|metadata| metadata.modified()) {
                Ok(changed) => segments.push((name, changed)),
                // The daemon has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        segments.sort();
        Ok(segments)
    }

    /// A log that has the events that were not seen yet, from as few segments as have them.
    fn end_of_log(&self, segments: &[(OsString, SystemTime)]) -> Result<Log, LogError> {
        // The one in use, and the one that is made ahead.
        let mut count = 2;
        while count < segments.len().saturating_mul(2) {
            let newest = segments.get(segments.len().saturating_sub(count)..).unwrap_or(segments);
            if let Some(log) = self.linked(newest)? {
                return Ok(log);
            }
            count = count.saturating_mul(2);
        }
        Log::open(&self.directory)
    }

    /// The log of some segments alone, if it goes on from what was seen.
    fn linked(&self, segments: &[(OsString, SystemTime)]) -> Result<Option<Log>, LogError> {
        let failed = |source| LogError::Source { path: std::env::temp_dir(), source };
        let links = tempfile::Builder::new().prefix("agarose-follow-").tempdir().map_err(failed)?;
        let target = links.path().join("segments");
        fs::create_dir(&target).map_err(failed)?;
        let directory = fs::canonicalize(self.directory.join("segments"))
            .map_err(|source| LogError::Source { path: self.directory.clone(), source })?;
        for (name, _) in segments {
            symlink(directory.join(name), target.join(name)).map_err(failed)?;
        }
        let log = match Log::open(links.path()) {
            Ok(log) => log,
            // A segment was removed meanwhile; the whole log has what it held.
            Err(LogError::Open { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let goes_on = log.first() <= self.next && log.head().sequence.saturating_add(1) >= self.next;
        Ok(goes_on.then_some(log))
    }
}
