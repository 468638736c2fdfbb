//! What a person sees while cells run: their output as it comes, and one line of progress below it.
//!
//! Output goes to stdout and stderr byte for byte. The progress line is drawn on stderr, only when that
//! is a terminal, and only when the cursor stands at the beginning of a line.

use std::{
    io::{IsTerminal, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{
    api::DisplayBody,
    duration,
    report::{self, printable},
};

/// How often the progress line is drawn anew.
const REDRAW: Duration = Duration::from_millis(100);

/// The terminal, or what stands in for it.
pub(super) struct Screen {
    shared: Arc<Shared>,
    drawer: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Whether output is shown at all.
    shows: bool,
    /// Whether stdout and the progress line are on a terminal.
    stdout_is_terminal: bool,
    colour: bool,
}

#[derive(Default)]
struct State {
    progress: Option<Progress>,
    drawn: bool,
    mid_line: bool,
    stdout_is_gone: bool,
    over: bool,
}

/// What the progress line tells.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// Which cell, from 1.
    pub(super) cell: usize,
    /// Of how many.
    pub(super) of: usize,
    /// What it is called.
    pub(super) label: String,
    /// When it was submitted.
    pub(super) since: Instant,
    /// Its place in the queue; 0 when it runs.
    pub(super) position: u64,
}

impl Progress {
    /// The line, cut to the width of the terminal.
    fn line(&self, width: usize) -> String {
        let elapsed = duration::spoken(self.since.elapsed());
        let state = match self.position {
            0 => format!("running, {elapsed}"),
            position => format!("waiting at place {position} of the queue, {elapsed}"),
        };
        let text = format!("[{}/{}] {} · {}", self.cell, self.of, state, self.label);
        text.chars().take(width.saturating_sub(1)).collect()
    }
}

impl Screen {
    /// A screen; without `shows` nothing but notes appears, and without `progress` no line does.
    pub(super) fn new(shows: bool, progress: bool) -> Self {
        let stderr = std::io::stderr();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            wake: Condvar::new(),
            shows,
            stdout_is_terminal: std::io::stdout().is_terminal(),
            colour: report::colour(&stderr),
        });
        let draws =
            shows && progress && stderr.is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        let drawer = draws.then(|| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.keep_drawing())
        });
        Self { shared, drawer }
    }

    /// Whether a progress line is drawn.
    pub(super) fn draws(&self) -> bool {
        self.drawer.is_some()
    }

    /// Sets what the progress line tells; nothing takes it away.
    pub(super) fn progress(&self, progress: Option<Progress>) {
        let mut state = self.shared.lock();
        state.hide();
        state.progress = progress;
    }

    /// Changes what the progress line tells.
    pub(super) fn amend(&self, change: impl FnOnce(&mut Progress)) {
        if let Some(progress) = &mut self.shared.lock().progress {
            change(progress);
        }
    }

    /// Output of a cell.
    pub(super) fn stdout(&self, bytes: &[u8]) {
        if !self.shared.shows || bytes.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        if state.stdout_is_gone {
            return;
        }
        if self.shared.stdout_is_terminal {
            state.hide();
            state.mid_line = !bytes.ends_with(b"\n");
        }
        let mut out = std::io::stdout().lock();
        // A reader that went away (`| head`) is no reason to stop the cell.
        state.stdout_is_gone = out.write_all(bytes).and_then(|()| out.flush()).is_err();
    }

    /// What a cell wrote to stderr.
    pub(super) fn stderr(&self, bytes: &[u8]) {
        if !self.shared.shows || bytes.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        state.hide();
        state.mid_line = !bytes.ends_with(b"\n");
        let _ = std::io::stderr().lock().write_all(bytes);
    }

    /// Something that a cell showed: its text, unless it is a picture, which has a file.
    pub(super) fn display(&self, display: &DisplayBody) {
        let is_picture =
            display.data.keys().any(|mime| mime.starts_with("image/") || mime == "application/pdf");
        let text = display.data.get("text/plain").and_then(|text| text.as_str());
        if let Some(text) = text.filter(|_| !is_picture && display.kind != "update") {
            self.fresh_line();
            self.stdout(format!("{}\n", text.trim_end_matches('\n')).as_bytes());
        }
    }

    /// A remark of ours, on a line of its own on stderr.
    pub(super) fn note(&self, text: &str) {
        self.fresh_line();
        let mut state = self.shared.lock();
        state.hide();
        report::note(text);
    }

    /// A remark of ours in a faint colour.
    pub(super) fn faint(&self, text: &str) {
        if self.shared.colour { self.note(&format!("\x1b[2m{text}\x1b[0m")) } else { self.note(text) }
    }

    /// The head of a cell.
    pub(super) fn heading(&self, cell: usize, of: usize, label: &str) {
        if self.shared.shows {
            self.faint(&format!("[{cell}/{of}] {}", printable(label)));
        }
    }

    /// Goes to the beginning of a line, if something stands on this one.
    pub(super) fn fresh_line(&self) {
        let mut state = self.shared.lock();
        if std::mem::take(&mut state.mid_line) && (self.shared.stdout_is_terminal || self.shared.shows) {
            let _ = std::io::stderr().lock().write_all(b"\n");
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.hide();
            state.progress = None;
            state.over = true;
        }
        self.shared.wake.notify_all();
        if let Some(drawer) = self.drawer.take() {
            let _ = drawer.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_drawing(&self) {
        let mut state = self.lock();
        while !state.over {
            if let Some(progress) = state.progress.as_ref().filter(|_| !state.mid_line) {
                let width =
                    terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(w, _)| usize::from(w.0));
                let line = progress.line(width);
                let _ = write!(std::io::stderr().lock(), "\r\x1b[2K{line}");
                state.drawn = true;
            }
            let waited = self.wake.wait_timeout(state, REDRAW);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    /// Takes the progress line away, so that something else can stand there.
    fn hide(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = std::io::stderr().lock().write_all(b"\r\x1b[2K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_tells_the_place_in_the_queue_and_fits_the_terminal() {
        let mut progress =
            Progress { cell: 3, of: 12, label: "fit the model".into(), since: Instant::now(), position: 2 };
        assert!(progress.line(100).starts_with("[3/12] waiting at place 2 of the queue, "));
        assert!(progress.line(100).ends_with(" · fit the model"));
        progress.position = 0;
        assert!(progress.line(100).starts_with("[3/12] running, "));
        assert_eq!(progress.line(20).chars().count(), 19);
    }
}
