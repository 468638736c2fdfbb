//! `agarose exec`, and what it shares with `run`: following a ticket, and Ctrl-C.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use super::{Global, SubmitArgs, screen::Screen, submit};
use crate::{
    api::{CancelBody, OutputBody, RunBody, TicketView},
    client::{Client, parse},
    duration,
    notebook::Piece,
    places::quoted,
    report::{Exit, Problem, note, say},
};

pub(super) fn exec(global: &Global, args: &SubmitArgs) -> Result<Exit, Problem> {
    let request = submit::request(args)?;
    let mut client = Client::connect(&global.data_dir()?)?;
    let interrupts = Interrupts::watch(&client, request.owner.clone(), &[SIGINT], || {})?;
    let submitted = client.submit(&request)?;
    interrupts.now_running(&submitted.ticket);
    let screen = Screen::new(!global.json, false);
    if submitted.repeated {
        screen.note(&format!(
            "note: the key was used before, for ticket {}; this is its output",
            submitted.ticket
        ));
    }
    let followed = follow(&mut client, &submitted.ticket, &screen);
    interrupts.stay_if_leaving();
    let (raw, view) = followed?;
    if global.json {
        say(&String::from_utf8_lossy(&raw));
    } else {
        conclude(&screen, &view);
    }
    Ok(Exit::of_state(&view.state))
}

/// Shows the output of a ticket as it comes, until its last word; its view, as JSON and as it is read.
pub(super) fn follow(
    client: &mut Client,
    ticket: &str,
    screen: &Screen,
) -> Result<(Vec<u8>, TicketView), Problem> {
    let mut from = 0;
    let mut started = false;
    loop {
        // While it waits, the progress line tells where.
        let watch_queue = !started && screen.draws();
        let output =
            if watch_queue { client.output_soon(ticket, from)? } else { client.output(ticket, from)? };
        show(&output, from, screen);
        from = output.next;
        if output.ended {
            break;
        }
        if watch_queue {
            let view: TicketView = parse(&client.show(ticket)?)?;
            started = view.state != "queued";
            screen.amend(|progress| progress.position = view.position);
        }
    }
    // The output may be whole a moment before the last word is written down.
    let (raw, view) = client.wait(ticket, None)?;
    Ok((raw, view))
}

pub(super) fn show(output: &OutputBody, from: u64, screen: &Screen) {
    for piece in pieces(output, from) {
        match piece {
            Piece::Stdout(bytes) => screen.stdout(&bytes),
            Piece::Stderr(bytes) => screen.stderr(&bytes),
            Piece::Display(display) => screen.display(&display),
            Piece::Dropped(count) => {
                screen.note(&format!("note: {} of output were dropped here", duration::bytes(count)));
            }
        }
    }
}

/// The pieces of output between `from` and the end of what was read, holes included.
pub(super) fn pieces(output: &OutputBody, from: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut expected = from;
    let hole = |expected: u64, start: u64| {
        let count = start.saturating_sub(expected);
        (count > 0).then_some(Piece::Dropped(count))
    };
    for run in &output.runs {
        pieces.extend(hole(expected, run.start));
        let bytes = bytes_of(run);
        expected = run.start.saturating_add(run.length);
        match run.channel.as_str() {
            "stderr" => pieces.push(Piece::Stderr(bytes)),
            "display" => pieces.extend(run.displays.iter().cloned().map(Piece::Display)),
            _ => pieces.push(Piece::Stdout(bytes)),
        }
    }
    pieces.extend(hole(expected, output.next));
    pieces
}

fn bytes_of(run: &RunBody) -> Vec<u8> {
    match (&run.base64, &run.text) {
        (Some(base64), _) => BASE64_STANDARD.decode(base64).unwrap_or_default(),
        (None, Some(text)) => text.as_bytes().to_vec(),
        (None, None) => Vec::new(),
    }
}

/// Tells what a person needs to know once a ticket has its last word, beyond its output.
pub(super) fn conclude(screen: &Screen, view: &TicketView) {
    screen.fresh_line();
    for (name, stream) in [("stdout", &view.stdout), ("stderr", &view.stderr)] {
        if stream.truncated {
            let [dropped, seen] = [stream.dropped, stream.seen].map(duration::bytes);
            screen.note(&format!("note: {dropped} of {name} were not kept, of {seen} in all"));
        }
    }
    for figure in &view.figures {
        screen.note(&format!("figure: {figure}"));
    }
    if let Some(error) = &view.error {
        if let Some(traceback) = error.traceback.as_deref().filter(|text| !text.is_empty()) {
            screen.note(traceback.trim_end_matches('\n'));
        }
        let told = error.traceback.is_some() && error.kind == "user";
        let message = error.message.as_deref().unwrap_or_default();
        if !told && !message.is_empty() {
            screen.note(&format!("{}: {message}", view.state.replace('_', " ")));
        }
    }
    for text in &view.notes {
        screen.note(&format!("note: {text}"));
    }
}

/// Ctrl-C: the first cancels exactly the ticket that is followed, the second goes away.
#[derive(Clone)]
pub(super) struct Interrupts {
    shared: Arc<Shared>,
}

struct Shared {
    dir: std::path::PathBuf,
    owner: String,
    ticket: Mutex<Option<String>>,
    presses: AtomicUsize,
    leaving: AtomicBool,
}

impl Interrupts {
    /// Watches for `signals`. `before_leaving` is done when a second one comes, before the program ends.
    pub(super) fn watch(
        client: &Client,
        owner: String,
        signals: &[i32],
        before_leaving: impl Fn() + Send + 'static,
    ) -> Result<Self, Problem> {
        let shared = Arc::new(Shared {
            dir: client.data_dir().to_path_buf(),
            owner,
            ticket: Mutex::new(None),
            presses: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
        });
        let mut pressed =
            Signals::new(signals).map_err(|error| Problem::because("cannot watch for Ctrl-C", &error))?;
        let watcher = Arc::clone(&shared);
        std::thread::spawn(move || {
            for signal in pressed.forever() {
                // Whoever ends the program from outside leaves the cell running, as a second Ctrl-C does.
                let presses = watcher.presses.fetch_add(1, Ordering::SeqCst) + 1;
                if signal == SIGINT && presses == 1 {
                    // A daemon that does not answer must not keep the second one from being heard.
                    let watcher = Arc::clone(&watcher);
                    std::thread::spawn(move || watcher.cancel());
                } else {
                    watcher.leaving.store(true, Ordering::SeqCst);
                    watcher.tell_way_back();
                    before_leaving();
                    std::process::exit(i32::from(Exit::Busy as u8));
                }
            }
        });
        Ok(Self { shared })
    }

    /// This ticket is followed now.
    pub(super) fn now_running(&self, ticket: &str) {
        let mut current = self.shared.ticket.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Some(ticket.to_owned());
        drop(current);
        // A Ctrl-C that came while it was being submitted was meant for it.
        if self.pressed() {
            self.shared.cancel();
        }
    }

    /// Does not return when the program is on its way out: what fails meanwhile is nobody's business.
    pub(super) fn stay_if_leaving(&self) {
        while self.shared.leaving.load(Ordering::SeqCst) {
            std::thread::park_timeout(std::time::Duration::from_secs(1));
        }
    }

    /// Whether Ctrl-C was pressed.
    pub(super) fn pressed(&self) -> bool {
        self.shared.presses.load(Ordering::SeqCst) > 0
    }
}

impl Shared {
    fn cancel(&self) {
        let Some(ticket) = self.ticket.lock().unwrap_or_else(PoisonError::into_inner).clone() else { return };
        note(&format!("\ncancelling {ticket}; press Ctrl-C again to leave it running and go away"));
        let request =
            CancelBody { owner: self.owner.clone(), reason: Some(String::from("Ctrl-C")), reach: None };
        let cancelled = Client::connect(&self.dir).and_then(|mut client| client.cancel(&ticket, &request));
        // A ticket that has just ended by itself is what was wanted.
        if let Err(problem) = cancelled
            && problem.kind != "ended"
        {
            problem.tell(false);
        }
    }

    fn tell_way_back(&self) {
        let ticket = self.ticket.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let dir = quoted(&self.dir.display().to_string());
        match ticket {
            Some(ticket) => note(&format!(
                "\ngoing away; {ticket} is left to the daemon\ncome back with `agarose --data-dir {dir} wait {ticket}`, \
                 look with `agarose --data-dir {dir} observe {ticket}`"
            )),
            None => note("\ngoing away; nothing was submitted"),
        }
    }
}

/// The signals by which a program that holds a daemon is told to go.
pub(super) const LEAVING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

#[cfg(test)]
mod tests {
    use super::*;

    fn run(channel: &str, start: u64, text: &str) -> RunBody {
        RunBody {
            channel: channel.into(),
            start,
            length: text.len() as u64,
            text: Some(text.into()),
            ..RunBody::default()
        }
    }

    #[test]
    fn holes_between_runs_are_told() {
        let output = OutputBody {
            runs: vec![run("stdout", 0, "abc"), run("stderr", 10, "d")],
            next: 20,
            ..OutputBody::default()
        };
        assert_eq!(
            pieces(&output, 0),
            [
                Piece::Stdout(b"abc".to_vec()),
                Piece::Dropped(7),
                Piece::Stderr(b"d".to_vec()),
                Piece::Dropped(9)
            ]
        );
        assert_eq!(pieces(&OutputBody { next: 5, ..OutputBody::default() }, 5), []);
    }

    #[test]
    fn bytes_that_are_not_text_come_as_they_were() {
        let mut run = run("stdout", 0, "\u{fffd}");
        run.base64 = Some(BASE64_STANDARD.encode(b"\xff"));
        assert_eq!(bytes_of(&run), b"\xff");
    }
}
