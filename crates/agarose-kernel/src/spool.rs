//! The output of a kernel on disk: bounded, counted, and readable when the supervisor is dead.
//!
//! One file per execution that is held, used again for later ones, so a cell makes no file. Its
//! front is mapped: what an execution is, how far it is and where its output lies are written
//! there without a system call and outlive a `kill -9`. The output itself is written behind it;
//! a cell that prints nothing therefore costs no file operation at all.
//!
//! The first and the last of the text are kept, and the first and the last of the displays; a
//! display is kept whole or not at all. What was dropped is a hole in the offsets. A disk that is
//! full drops what it does not take, which is counted like any other drop.

mod area;
mod recover;

use std::{
    fs::{File, OpenOptions},
    io,
    num::NonZeroUsize,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use agarose_process::SharedMapping;

use self::area::{Area, Control, Layout, Phase};
pub(crate) use self::recover::{recover, recover_kernel};
use crate::{
    spec::SpoolBounds,
    wire::{
        Channel, ExecutionId, Run,
        supervisor::{Output, StreamCount},
        worker::CellResult,
    },
};

/// How many executions can be held at a time: the one that runs, and those that ended and were
/// not released. More means that the daemon has forgotten how to release.
const STREAMS: usize = 16;

/// A piece of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// How many bytes were dropped between the offset asked for and the first run.
    pub dropped: u64,
    /// What `bytes` is made of; contiguous.
    pub runs: Vec<Run>,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where to read on.
    pub next: u64,
    /// The end of the stream so far.
    pub end: u64,
}

/// The bounded, counted output of one execution, or of the kernel itself.
#[derive(Debug)]
pub struct Stream {
    file: File,
    control: Control<SharedMapping>,
    layout: Layout,
}

impl Stream {
    /// Makes the file. It takes the room that its front needs at once, so that a disk that fills
    /// up later can cost output and nothing else.
    ///
    /// # Errors
    /// When the file cannot be made or there is no room.
    pub fn create(path: &Path, bounds: SpoolBounds) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let layout = Layout::of(bounds);
        let length = NonZeroUsize::new(layout.control_length()).ok_or(io::ErrorKind::InvalidInput)?;
        let mut control = Control(SharedMapping::of_file(&file, length)?);
        control.format(&layout);
        Ok(Self { file, control, layout })
    }

    /// Forgets what was there and begins an execution; `sequence` orders it among the others.
    pub fn begin(&mut self, id: ExecutionId, sequence: u64) {
        self.control.begin(id, sequence);
    }

    /// Notes that user code begins.
    pub fn start(&mut self) {
        self.control.set_phase(Phase::Started);
    }

    /// Notes the result; what comes later is not this execution's.
    ///
    /// # Errors
    /// When the disk does not take it. A later daemon will then not find it here.
    pub fn finish(&mut self, result: &CellResult) -> io::Result<()> {
        let json = serde_json::to_vec(result)?;
        if !self.control.put_small_result(&json) {
            self.file.write_all_at(&json, self.layout.result_at())?;
            self.control.note_large_result(json.len());
        }
        self.control.set_phase(Phase::Ended);
        Ok(())
    }

    /// Frees the stream for another execution, and the disk of what was large.
    pub fn release(&mut self) {
        let large = self.control.has_large_result()
            || self.layout.display_areas().iter().any(|area| self.control.held(area).length > 0);
        self.control.set_phase(Phase::Free);
        if large {
            // Refused, the room stays taken until the kernel's directory goes.
            let _ = self.file.set_len(self.layout.result_at());
        }
    }

    /// Adds text.
    pub fn append(&mut self, channel: Channel, bytes: &[u8]) {
        let start = self.control.note_seen(channel, bytes.len());
        let [head, tail] = self.layout.text_areas();
        let taken = self.append_first(&head, channel, start, bytes);
        let (_, rest) = bytes.split_at(taken);
        if !rest.is_empty() {
            // Only the last of it can stay.
            let skipped = rest.len().saturating_sub(usize::try_from(tail.capacity).unwrap_or(usize::MAX));
            let (_, rest) = rest.split_at(skipped);
            self.append_last(&tail, channel, start + (taken + skipped) as u64, rest);
        }
    }

    /// Adds a display or a wish to clear one: a whole frame.
    pub fn append_display(&mut self, frame: &[u8]) {
        let start = self.control.note_seen(Channel::Display, frame.len());
        let [head, tail] = self.layout.display_areas();
        let fits = self.control.held(&head).length + frame.len() as u64 <= head.capacity;
        if fits && self.append_first(&head, Channel::Display, start, frame) == frame.len() {
            return;
        }
        if frame.len() as u64 <= tail.capacity {
            self.append_last(&tail, Channel::Display, start, frame);
        }
    }

    /// Writes as much of `bytes` as an area that only fills up has room for; says how much.
    fn append_first(&mut self, area: &Area, channel: Channel, start: u64, bytes: &[u8]) -> usize {
        let held = self.control.held(area);
        let room = usize::try_from(area.capacity - held.length).unwrap_or(usize::MAX);
        let (bytes, _) = bytes.split_at(bytes.len().min(room));
        if bytes.is_empty() || !self.control.has_room_for_run(area, channel, start) {
            return 0;
        }
        if self.file.write_all_at(bytes, area.data_at + held.length).is_err() {
            return 0;
        }
        self.control.add_run(area, Run { channel, start, len: bytes.len() as u64 });
        bytes.len()
    }

    /// Writes `bytes`, which fit, over the oldest of an area.
    fn append_last(&mut self, area: &Area, channel: Channel, start: u64, bytes: &[u8]) {
        if area.capacity == 0 || bytes.is_empty() {
            return;
        }
        if !self.control.has_room_for_run(area, channel, start) {
            self.control.drop_oldest_run(area);
        }
        let over = (self.control.held(area).length + bytes.len() as u64).saturating_sub(area.capacity);
        self.control.drop_oldest_bytes(area, over);
        let place = self.control.held(area).written % area.capacity;
        let before_end = usize::try_from(area.capacity - place).unwrap_or(usize::MAX).min(bytes.len());
        let (first, second) = bytes.split_at(before_end);
        let written = self.file.write_all_at(first, area.data_at + place);
        if written.and_then(|()| self.file.write_all_at(second, area.data_at)).is_ok() {
            self.control.add_run(area, Run { channel, start, len: bytes.len() as u64 });
        }
    }

    /// The execution that is held here.
    #[must_use]
    pub fn id(&self) -> Option<ExecutionId> {
        self.control.id()
    }

    /// The end of the stream so far.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.control.end()
    }

    /// Bytes seen on a channel.
    #[must_use]
    pub fn seen(&self, channel: Channel) -> u64 {
        self.control.seen(channel)
    }

    /// The counters.
    #[must_use]
    pub fn output(&self) -> Output {
        self.control.output(&self.layout)
    }

    /// What is kept from offset `from` on: at most `max` bytes, up to the next hole.
    #[must_use]
    pub fn read(&self, from: u64, max: u64) -> Piece {
        area::read(&self.control, &self.layout, &self.file, from, max)
    }

    /// All that is kept, if that is at most `limit` bytes.
    #[must_use]
    pub fn read_whole(&self, limit: u64) -> Option<(Vec<Run>, Vec<u8>)> {
        let output = self.output();
        let retained = output.stdout.retained + output.stderr.retained + output.display.retained;
        (retained <= limit).then(|| area::read_whole(&self.control, &self.layout, &self.file))
    }
}

/// The streams of one kernel.
#[derive(Debug)]
pub struct Spool {
    dir: PathBuf,
    bounds: SpoolBounds,
    streams: Vec<Stream>,
    kernel: Option<Stream>,
    /// What the kernel's own stream would have held when it could not be made.
    kernel_lost: u64,
    begun: u64,
}

/// The file of a stream.
pub(crate) fn stream_file(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("spool-{number}"))
}

/// The file of the kernel's own stream.
pub(crate) fn kernel_file(dir: &Path) -> PathBuf {
    dir.join("spool-kernel")
}

impl Spool {
    /// Makes the first file.
    ///
    /// # Errors
    /// When it cannot be made or there is no room.
    pub fn create(dir: &Path, bounds: SpoolBounds) -> io::Result<Self> {
        let first = Stream::create(&stream_file(dir, 0), bounds)?;
        Ok(Self {
            dir: dir.to_path_buf(),
            bounds,
            streams: vec![first],
            kernel: None,
            kernel_lost: 0,
            begun: 0,
        })
    }

    /// Begins an execution.
    ///
    /// # Errors
    /// When too many are held, or no further file can be made.
    pub fn begin(&mut self, id: ExecutionId) -> io::Result<()> {
        let free = match self.streams.iter().position(|stream| stream.id().is_none()) {
            Some(free) => free,
            None if self.streams.len() < STREAMS => {
                let number = self.streams.len();
                self.streams.push(Stream::create(&stream_file(&self.dir, number), self.bounds)?);
                number
            }
            None => return Err(io::ErrorKind::QuotaExceeded.into()),
        };
        self.begun += 1;
        if let Some(stream) = self.streams.get_mut(free) {
            stream.begin(id, self.begun);
        }
        Ok(())
    }

    /// The stream of an execution that is held.
    #[must_use]
    pub fn stream(&self, id: ExecutionId) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.id() == Some(id))
    }

    /// The same, to be written to.
    pub fn stream_mut(&mut self, id: ExecutionId) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|stream| stream.id() == Some(id))
    }

    /// The kernel's own stream, once something was written to it.
    #[must_use]
    pub const fn kernel(&self) -> Option<&Stream> {
        self.kernel.as_ref()
    }

    /// The end of the kernel's own stream.
    #[must_use]
    pub fn kernel_end(&self) -> u64 {
        self.kernel.as_ref().map_or(self.kernel_lost, Stream::end)
    }

    /// Adds text that belongs to no execution.
    pub fn append_to_kernel(&mut self, channel: Channel, bytes: &[u8]) {
        if self.kernel.is_none() {
            self.kernel = Stream::create(&kernel_file(&self.dir), self.bounds).ok();
        }
        match &mut self.kernel {
            Some(stream) => stream.append(channel, bytes),
            None => self.kernel_lost = self.kernel_lost.saturating_add(bytes.len() as u64),
        }
    }
}

impl Output {
    fn count(&mut self, channel: Channel) -> &mut StreamCount {
        match channel {
            Channel::Stdout => &mut self.stdout,
            Channel::Stderr => &mut self.stderr,
            Channel::Display => &mut self.display,
        }
    }
}

#[cfg(test)]
mod tests;
