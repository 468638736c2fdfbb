//! Where things lie in a stream's file.
//!
//! ```text
//! control (mapped) | text head | text tail | large result | displays' head | displays' tail
//! ```
//!
//! The control part is a row of 64-bit little-endian words, then a small result, then the runs of
//! the four areas, 16 bytes each. It is written in such an order that a process killed in between
//! leaves at worst bytes that no run speaks of. It is read with suspicion: the reader may be
//! another process, much later.

use std::{
    fs::File,
    ops::{Deref, DerefMut},
    os::unix::fs::FileExt,
};

use agarose_core::TicketId;

use super::Piece;
use crate::{
    spec::SpoolBounds,
    wire::{Channel, ExecutionId, Run, supervisor::Output},
};

/// "agspool" and the version of this layout. Frozen: a later daemon reads it.
const MAGIC: u64 = u64::from_le_bytes(*b"agspool1");

// The words of the control part, by number. Frozen with the version above.
const WORD_MAGIC: usize = 0;
const WORD_HEAD: usize = 1;
const WORD_TAIL: usize = 2;
const WORD_DISPLAYS: usize = 3;
const WORD_PHASE: usize = 4;
const WORD_SEQUENCE: usize = 5;
const WORD_ID_LOW: usize = 6;
const WORD_ID_HIGH: usize = 7;
const WORD_END: usize = 8;
/// Bytes seen: one word for each channel.
const WORD_SEEN: usize = 9;
const WORD_RESULT_LENGTH: usize = 12;
const WORD_RESULT_LARGE: usize = 13;
/// Four words for each of the four areas: length, written, first run, next run.
const WORD_AREAS: usize = 16;

const SMALL_RESULT_AT: usize = 256;
const RUNS_AT: usize = 4096;
const RUN_BYTES: usize = 16;
const TEXT_RUNS: u64 = 8192;
const DISPLAY_RUNS: u64 = 2048;
const SMALL_RESULT: usize = RUNS_AT - SMALL_RESULT_AT;
/// Room for the longest result.
const LARGE_RESULT: u64 = 16 << 20;
/// The upper 8 bits of a run's second word are its channel.
const CHANNEL_SHIFT: u32 = 56;

/// What an execution in a stream is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is none.
    Free,
    /// The worker has been given it.
    Accepted,
    /// User code has begun.
    Started,
    /// Its result is here.
    Ended,
}

/// Where the parts of a file begin, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    bounds: SpoolBounds,
}

/// A part of the file that holds bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Area {
    /// Where in the file.
    pub(super) data_at: u64,
    /// How many bytes.
    pub(super) capacity: u64,
    /// The first of its four words.
    words: usize,
    /// Where its runs are.
    runs_at: usize,
    runs_capacity: u64,
    /// Whether its runs are dropped whole or not at all.
    whole: bool,
}

/// How full an area is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Bytes held.
    pub(super) length: u64,
    /// Bytes ever written to it.
    pub(super) written: u64,
    first: u64,
    next: u64,
}

impl Layout {
    pub(super) const fn of(bounds: SpoolBounds) -> Self {
        // A bound beyond this would be a mistake, and its sums could overflow.
        const MOST: u64 = 1 << 40;
        const fn limit(bytes: u64) -> u64 {
            if bytes > MOST { MOST } else { bytes }
        }
        Self {
            bounds: SpoolBounds {
                head: limit(bounds.head),
                tail: limit(bounds.tail),
                displays: limit(bounds.displays),
            },
        }
    }

    pub(super) const fn control_length(&self) -> usize {
        RUNS_AT + (2 * TEXT_RUNS as usize + 2 * DISPLAY_RUNS as usize) * RUN_BYTES
    }

    /// The first and the last of the text.
    pub(super) const fn text_areas(&self) -> [Area; 2] {
        let at = self.control_length() as u64;
        let head = Area {
            data_at: at,
            capacity: self.bounds.head,
            words: WORD_AREAS,
            runs_at: RUNS_AT,
            runs_capacity: TEXT_RUNS,
            whole: false,
        };
        let tail = Area {
            data_at: at + self.bounds.head,
            capacity: self.bounds.tail,
            words: WORD_AREAS + 4,
            runs_at: RUNS_AT + TEXT_RUNS as usize * RUN_BYTES,
            ..head
        };
        [head, tail]
    }

    pub(super) const fn result_at(&self) -> u64 {
        self.control_length() as u64 + self.bounds.head + self.bounds.tail
    }

    /// The first and the last of the displays.
    pub(super) const fn display_areas(&self) -> [Area; 2] {
        let capacity = self.bounds.displays / 2;
        let head = Area {
            data_at: self.result_at() + LARGE_RESULT,
            capacity,
            words: WORD_AREAS + 8,
            runs_at: RUNS_AT + 2 * TEXT_RUNS as usize * RUN_BYTES,
            runs_capacity: DISPLAY_RUNS,
            whole: true,
        };
        let tail = Area {
            data_at: head.data_at + capacity,
            words: WORD_AREAS + 12,
            runs_at: head.runs_at + DISPLAY_RUNS as usize * RUN_BYTES,
            ..head
        };
        [head, tail]
    }

    fn areas(&self) -> impl Iterator<Item = Area> {
        self.text_areas().into_iter().chain(self.display_areas())
    }
}

const fn channel_number(channel: Channel) -> u64 {
    match channel {
        Channel::Stdout => 0,
        Channel::Stderr => 1,
        Channel::Display => 2,
    }
}

const fn channel_of(number: u64) -> Option<Channel> {
    match number {
        0 => Some(Channel::Stdout),
        1 => Some(Channel::Stderr),
        2 => Some(Channel::Display),
        _ => None,
    }
}

/// The control part.
#[derive(Debug)]
pub(super) struct Control<M>(pub(super) M);

impl<M: Deref<Target = [u8]>> Control<M> {
    fn at(&self, offset: usize) -> u64 {
        self.0
            .get(offset..)
            .and_then(|rest| rest.first_chunk::<8>())
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn word(&self, number: usize) -> u64 {
        self.at(number * 8)
    }

    /// The layout that the file was made with, if it is one of ours and as long as it must be.
    pub(super) fn layout(&self) -> Option<Layout> {
        let layout = Layout::of(SpoolBounds {
            head: self.word(WORD_HEAD),
            tail: self.word(WORD_TAIL),
            displays: self.word(WORD_DISPLAYS),
        });
        (self.word(WORD_MAGIC) == MAGIC && self.0.len() >= layout.control_length()).then_some(layout)
    }

    pub(super) fn phase(&self) -> Phase {
        match self.word(WORD_PHASE) {
            1 => Phase::Accepted,
            2 => Phase::Started,
            3 => Phase::Ended,
            _ => Phase::Free,
        }
    }

    pub(super) fn sequence(&self) -> u64 {
        self.word(WORD_SEQUENCE)
    }

    pub(super) fn id(&self) -> Option<ExecutionId> {
        let id = (u128::from(self.word(WORD_ID_HIGH)) << 64) | u128::from(self.word(WORD_ID_LOW));
        (self.phase() != Phase::Free).then_some(ExecutionId(TicketId(id)))
    }

    pub(super) fn end(&self) -> u64 {
        self.word(WORD_END)
    }

    pub(super) fn seen(&self, channel: Channel) -> u64 {
        self.word(WORD_SEEN + channel_number(channel) as usize)
    }

    pub(super) fn has_large_result(&self) -> bool {
        self.word(WORD_RESULT_LARGE) != 0
    }

    /// The bytes of the result.
    pub(super) fn result(&self, layout: &Layout, file: &File) -> Option<Vec<u8>> {
        let length = usize::try_from(self.word(WORD_RESULT_LENGTH)).ok()?;
        if self.has_large_result() {
            if length as u64 > LARGE_RESULT {
                return None;
            }
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, layout.result_at()).ok()?;
            Some(bytes)
        } else {
            if length > SMALL_RESULT {
                return None;
            }
            self.0.get(SMALL_RESULT_AT..SMALL_RESULT_AT + length).map(<[u8]>::to_vec)
        }
    }

    pub(super) fn held(&self, area: &Area) -> Held {
        Held {
            length: self.word(area.words).min(area.capacity),
            written: self.word(area.words + 1),
            first: self.word(area.words + 2),
            next: self.word(area.words + 3),
        }
    }

    fn run(&self, area: &Area, index: u64) -> Option<Run> {
        let place = usize::try_from(index % area.runs_capacity).ok()?;
        let at = area.runs_at + place * RUN_BYTES;
        let packed = self.at(at + 8);
        let channel = channel_of(packed >> CHANNEL_SHIFT)?;
        Some(Run { channel, start: self.at(at), len: packed & ((1 << CHANNEL_SHIFT) - 1) })
    }

    /// The runs of an area, each with its place in the file's area, as long as they make sense.
    fn runs<'a>(&'a self, area: &'a Area) -> impl Iterator<Item = (Run, u64)> + 'a {
        let held = self.held(area);
        let count = held.next.wrapping_sub(held.first).min(area.runs_capacity);
        let mut place = held.written.wrapping_sub(held.length);
        let mut left = held.length;
        (0..count).map_while(move |number| {
            let run = self.run(area, held.first.wrapping_add(number))?;
            left = left.checked_sub(run.len)?;
            run.start.checked_add(run.len)?;
            let at = place.checked_rem(area.capacity)?;
            place = place.wrapping_add(run.len);
            Some((run, at))
        })
    }

    pub(super) fn output(&self, layout: &Layout) -> Output {
        let mut output = Output { stream_end: self.end(), ..Output::default() };
        for channel in [Channel::Stdout, Channel::Stderr, Channel::Display] {
            output.count(channel).seen = self.seen(channel);
        }
        for area in layout.areas() {
            for (run, _) in self.runs(&area) {
                let count = output.count(run.channel);
                count.retained = count.retained.saturating_add(run.len);
                output.stream_end = output.stream_end.max(run.start + run.len);
            }
        }
        for channel in [Channel::Stdout, Channel::Stderr, Channel::Display] {
            let count = output.count(channel);
            count.seen = count.seen.max(count.retained);
        }
        output
    }

    pub(super) fn has_room_for_run(&self, area: &Area, channel: Channel, start: u64) -> bool {
        let held = self.held(area);
        held.next - held.first < area.runs_capacity || self.extends_last(area, channel, start)
    }

    fn extends_last(&self, area: &Area, channel: Channel, start: u64) -> bool {
        let held = self.held(area);
        // A display is a run of its own, so that it can be dropped as one.
        !area.whole
            && held.next > held.first
            && self
                .run(area, held.next - 1)
                .is_some_and(|last| last.channel == channel && last.start + last.len == start)
    }
}

impl<M: DerefMut<Target = [u8]>> Control<M> {
    fn put(&mut self, offset: usize, value: u64) {
        if let Some(place) = self.0.get_mut(offset..).and_then(|rest| rest.first_chunk_mut::<8>()) {
            *place = value.to_le_bytes();
        }
    }

    fn set(&mut self, number: usize, value: u64) {
        self.put(number * 8, value);
    }

    pub(super) fn format(&mut self, layout: &Layout) {
        self.set(WORD_HEAD, layout.bounds.head);
        self.set(WORD_TAIL, layout.bounds.tail);
        self.set(WORD_DISPLAYS, layout.bounds.displays);
        self.set(WORD_MAGIC, MAGIC);
    }

    pub(super) fn begin(&mut self, id: ExecutionId, sequence: u64) {
        for word in WORD_PHASE..WORD_AREAS + 16 {
            self.set(word, 0);
        }
        let ExecutionId(TicketId(id)) = id;
        self.set(WORD_SEQUENCE, sequence);
        self.set(WORD_ID_LOW, id as u64);
        self.set(WORD_ID_HIGH, (id >> 64) as u64);
        self.set_phase(Phase::Accepted);
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.set(
            WORD_PHASE,
            match phase {
                Phase::Free => 0,
                Phase::Accepted => 1,
                Phase::Started => 2,
                Phase::Ended => 3,
            },
        );
    }

    /// Counts bytes of a channel, and gives the offset of the first of them.
    pub(super) fn note_seen(&mut self, channel: Channel, bytes: usize) -> u64 {
        let start = self.end();
        let word = WORD_SEEN + channel_number(channel) as usize;
        self.set(word, self.word(word).saturating_add(bytes as u64));
        self.set(WORD_END, start.saturating_add(bytes as u64));
        start
    }

    pub(super) fn put_small_result(&mut self, json: &[u8]) -> bool {
        let room = self.0.get_mut(SMALL_RESULT_AT..RUNS_AT).and_then(|room| room.get_mut(..json.len()));
        let Some(room) = room else {
            return false;
        };
        room.copy_from_slice(json);
        self.set(WORD_RESULT_LARGE, 0);
        self.set(WORD_RESULT_LENGTH, json.len() as u64);
        true
    }

    pub(super) fn note_large_result(&mut self, length: usize) {
        self.set(WORD_RESULT_LARGE, 1);
        self.set(WORD_RESULT_LENGTH, length as u64);
    }

    fn set_held(&mut self, area: &Area, held: Held) {
        self.set(area.words, held.length);
        self.set(area.words + 1, held.written);
        self.set(area.words + 2, held.first);
        self.set(area.words + 3, held.next);
    }

    fn put_run(&mut self, area: &Area, index: u64, run: Run) {
        let place = usize::try_from(index % area.runs_capacity).unwrap_or(0);
        let at = area.runs_at + place * RUN_BYTES;
        self.put(at, run.start);
        self.put(at + 8, run.len | (channel_number(run.channel) << CHANNEL_SHIFT));
    }

    /// Notes a run whose bytes have been written at the end of an area that has room for it.
    pub(super) fn add_run(&mut self, area: &Area, run: Run) {
        let mut held = self.held(area);
        held.length += run.len;
        held.written += run.len;
        if self.extends_last(area, run.channel, run.start)
            && let Some(last) = self.run(area, held.next - 1)
        {
            self.put_run(area, held.next - 1, Run { len: last.len + run.len, ..last });
        } else {
            self.put_run(area, held.next, run);
            held.next += 1;
        }
        self.set_held(area, held);
    }

    pub(super) fn drop_oldest_run(&mut self, area: &Area) {
        let mut held = self.held(area);
        if let Some(oldest) = self.run(area, held.first)
            && held.first < held.next
        {
            held.first += 1;
            held.length = held.length.saturating_sub(oldest.len);
            self.set_held(area, held);
        }
    }

    /// Forgets at least `bytes` of the oldest: exactly, or whole runs where they may not be cut.
    pub(super) fn drop_oldest_bytes(&mut self, area: &Area, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let held = self.held(area);
            let Some(oldest) = self.run(area, held.first).filter(|_| held.first < held.next) else {
                return;
            };
            if oldest.len <= left || area.whole {
                left = left.saturating_sub(oldest.len);
                self.drop_oldest_run(area);
            } else {
                let rest = Run { start: oldest.start + left, len: oldest.len - left, ..oldest };
                self.put_run(area, held.first, rest);
                self.set_held(area, Held { length: held.length - left, ..held });
                return;
            }
        }
    }
}

/// A run that is kept, and where.
#[derive(Clone, Copy)]
struct Kept {
    run: Run,
    area: Area,
    place: u64,
}

fn kept_from<M: Deref<Target = [u8]>>(control: &Control<M>, layout: &Layout, from: u64) -> Vec<Kept> {
    let mut kept = Vec::new();
    for area in layout.areas() {
        let runs = control.runs(&area).filter(|(run, _)| run.start + run.len > from);
        kept.extend(runs.map(|(run, place)| Kept { run, area, place }));
    }
    kept.sort_by_key(|kept| kept.run.start);
    kept
}

/// Reads `length` bytes of a kept run from `skip` on; what cannot be read is left out.
fn read_kept(file: &File, kept: &Kept, skip: u64, length: u64, bytes: &mut Vec<u8>) -> bool {
    let Some(place) = (kept.place + skip).checked_rem(kept.area.capacity) else {
        return false;
    };
    let before = bytes.len();
    let Ok(wanted) = usize::try_from(length) else {
        return false;
    };
    bytes.resize(before + wanted, 0);
    let buffer = bytes.get_mut(before..).unwrap_or_default();
    let first = usize::try_from(kept.area.capacity - place).unwrap_or(usize::MAX).min(wanted);
    let (first, second) = buffer.split_at_mut(first);
    let read = file.read_exact_at(first, kept.area.data_at + place);
    let whole = read.and_then(|()| file.read_exact_at(second, kept.area.data_at)).is_ok();
    if !whole {
        bytes.truncate(before);
    }
    whole
}

fn push_run(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last)
            if last.channel == run.channel
                && run.channel != Channel::Display
                && last.start + last.len == run.start =>
        {
            last.len += run.len;
        }
        _ => runs.push(run),
    }
}

/// What is kept from `from` on: at most `max` bytes, up to the next hole.
pub(super) fn read<M: Deref<Target = [u8]>>(
    control: &Control<M>,
    layout: &Layout,
    file: &File,
    from: u64,
    max: u64,
) -> Piece {
    let end = control.end();
    let mut piece = Piece { next: from.min(end), end, ..Piece::default() };
    let mut room = max;
    for kept in kept_from(control, layout, from) {
        let skip = from.saturating_sub(kept.run.start);
        let start = kept.run.start + skip;
        if piece.runs.is_empty() {
            piece.dropped = start.saturating_sub(from);
            piece.next = start;
        }
        if start != piece.next || room == 0 {
            break;
        }
        let length = (kept.run.len - skip).min(room);
        if !read_kept(file, &kept, skip, length, &mut piece.bytes) {
            break;
        }
        push_run(&mut piece.runs, Run { start, len: length, ..kept.run });
        piece.next = start + length;
        room -= length;
    }
    if piece.runs.is_empty() && max > 0 {
        piece.dropped = end.saturating_sub(from);
        piece.next = end.max(from);
    }
    piece
}

/// All that is kept.
pub(super) fn read_whole<M: Deref<Target = [u8]>>(
    control: &Control<M>,
    layout: &Layout,
    file: &File,
) -> (Vec<Run>, Vec<u8>) {
    let (mut runs, mut bytes) = (Vec::new(), Vec::new());
    for kept in kept_from(control, layout, 0) {
        if read_kept(file, &kept, 0, kept.run.len, &mut bytes) {
            push_run(&mut runs, kept.run);
        }
    }
    (runs, bytes)
}
