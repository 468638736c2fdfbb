//! A connection on the supervisor's socket.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use agarose_process::{PeerProcess, ProcessId, is_running, start_time};

use super::worker::Outgoing;
use crate::wire::{
    frame::{Decoder, Limits, encode},
    supervisor::FromSupervisor,
};

/// How long a peer may take to say who it is.
pub(super) const STRANGER_TIME: Duration = Duration::from_secs(5);
/// With this much unread by the daemon, nothing more is read from it.
const BACKLOG: usize = 4 << 20;

/// Somebody at the other end.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    pub(super) decoder: Decoder,
    outgoing: Outgoing,
    /// The process that connected.
    pub(super) peer: Option<ProcessId>,
    pub(super) since: Instant,
    open: bool,
}

impl Connection {
    /// A peer that has not shown its secret yet; `None` when it is not of our user.
    pub(super) fn of_stranger(stream: UnixStream, now: Instant) -> Option<Self> {
        let peer = PeerProcess::of(&stream).ok().filter(PeerProcess::is_ours)?;
        stream.set_nonblocking(true).ok()?;
        Some(Self {
            stream,
            decoder: Decoder::new(Limits::STRANGER),
            outgoing: Outgoing::default(),
            peer: start_time(peer.pid).map(|start_time| ProcessId { pid: peer.pid, start_time }),
            since: now,
            open: true,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether the other end is still there, as far as the connection itself tells.
    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the process that connected is still there: its end may be held open by a child.
    pub(super) fn peer_is_running(&self) -> bool {
        self.peer.is_some_and(is_running)
    }

    /// Whether more is to be read from it now.
    pub(super) const fn wants_read(&self) -> bool {
        self.open && self.outgoing.len() < BACKLOG
    }

    pub(super) const fn wants_write(&self) -> bool {
        self.open && !self.outgoing.is_empty()
    }

    /// Reads what is there; `false` when nothing was.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> bool {
        loop {
            match self.stream.read(buffer) {
                Ok(length) if length > 0 => {
                    self.decoder.push(buffer.get(..length).unwrap_or_default());
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                _ => {
                    self.open = false;
                    return false;
                }
            }
        }
    }

    /// Says something; written by [`Connection::flush`].
    pub(super) fn send(&mut self, message: &FromSupervisor, body: &[u8]) {
        if self.open && encode(message, body, &mut self.outgoing.bytes).is_err() {
            // Nothing that we say is that long; a daemon that misses a frame is worse off than
            // one that attaches again.
            self.open = false;
        }
    }

    /// Writes as much as the other end takes.
    pub(super) fn flush(&mut self) {
        let stream = &mut self.stream;
        let written = self.outgoing.write_to(|bytes| {
            loop {
                match stream.write(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => return other,
                }
            }
        });
        if written.is_err() {
            self.open = false;
        }
    }

    /// Writes the rest, waiting for at most `time`.
    pub(super) fn flush_within(&mut self, time: Duration) {
        let blocking = self.stream.set_nonblocking(false).is_ok();
        if blocking && self.stream.set_write_timeout(Some(time)).is_ok() {
            self.flush();
        }
    }

    /// Says why and hangs up.
    pub(super) fn refuse(&mut self, reason: &str) {
        self.send(&FromSupervisor::ProtocolError { reason: reason.to_owned() }, &[]);
        self.flush();
        self.open = false;
    }
}
