//! The log as lines of JSON, from any event on, as fast as whoever reads takes them.
//!
//! An observer is a reader of the log: it holds up nobody, and one that reconnects with the number after
//! the last it has seen misses nothing.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use agarose_engine::Engine;
use axum::body::Bytes;
use futures_core::Stream;
use tokio::sync::mpsc;

/// How many events are read at once.
const STEP: usize = 512;

/// How many pieces wait for a reader; more are not read from the disk before they are wanted.
const AHEAD: usize = 4;

/// Lines of events.
pub(super) struct Lines(mpsc::Receiver<io::Result<Bytes>>);

impl Stream for Lines {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

/// The events from `next` on; with `follow`, those to come too.
pub(super) fn lines(engine: &Engine, next: u64, follow: bool) -> Lines {
    let (send, receive) = mpsc::channel(AHEAD);
    let (reader, mut durable) = (engine.reader(), engine.durable());
    tokio::spawn(async move {
        let mut next = next;
        loop {
            // Marked as seen before reading: what comes meanwhile is then noticed below.
            durable.borrow_and_update();
            let events = reader.events(next..);
            let piece = tokio::task::spawn_blocking(move || read(events, next)).await;
            let piece = piece.unwrap_or_else(|error| Err(io::Error::other(error)));
            match piece {
                Ok((_, lines)) if lines.is_empty() => {
                    if !follow {
                        return;
                    }
                    let over = tokio::select! {
                        changed = durable.changed() => changed.is_err(),
                        () = send.closed() => true,
                    };
                    if over {
                        return;
                    }
                }
                Ok((after, lines)) => {
                    next = after;
                    if send.send(Ok(lines.into())).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    // The reader sees the line cut off, and the daemon's log says why.
                    tracing::error!(%error, "the log could not be read for an observer");
                    let _ = send.send(Err(error)).await;
                    return;
                }
            }
        }
    });
    Lines(receive)
}

fn read(events: agarose_journal::Events, from: u64) -> io::Result<(u64, Vec<u8>)> {
    let mut lines = Vec::new();
    let mut next = from;
    for entry in events.take(STEP) {
        let entry = entry.map_err(io::Error::other)?;
        next = entry.sequence.saturating_add(1);
        lines.extend_from_slice(agarose_log::json_line(entry).as_bytes());
        lines.push(b'\n');
    }
    Ok((next, lines))
}
