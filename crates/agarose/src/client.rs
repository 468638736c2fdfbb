//! The other end of the socket: HTTP/1.1, blocking, one connection.
//!
//! A command is a handful of requests and then an exit, so there is no runtime here: what a client
//! costs is what a process costs.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    api, places,
    report::{Exit, Problem},
};

/// How large the head of an answer may be, in bytes.
const HEAD_LIMIT: usize = 64 * 1024;

/// How much output one answer carries at most, in bytes.
const OUTPUT_STEP: u64 = 1 << 20;

/// How long one request for output waits for more before it is asked again.
const OUTPUT_WAIT: Duration = Duration::from_secs(30);

/// How long it waits while the place in the queue is watched.
const OUTPUT_GLANCE: Duration = Duration::from_millis(300);

/// A connection to the daemon of a data directory.
pub(crate) struct Client {
    dir: PathBuf,
    stream: UnixStream,
    /// What was received and not used yet.
    buffer: Vec<u8>,
}

struct Answer {
    status: u16,
    body: Vec<u8>,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorFields,
}

#[derive(Deserialize)]
struct ErrorFields {
    kind: String,
    message: String,
    hint: Option<String>,
    ticket: Option<String>,
}

impl Client {
    /// Connects to the daemon of `dir`.
    pub(crate) fn connect(dir: &Path) -> Result<Self, Problem> {
        Ok(Self { dir: dir.to_path_buf(), stream: places::connect(dir)?, buffer: Vec::new() })
    }

    /// Another connection to the same daemon.
    pub(crate) fn again(&self) -> Result<Self, Problem> {
        Self::connect(&self.dir)
    }

    /// The data directory.
    pub(crate) fn data_dir(&self) -> &Path {
        &self.dir
    }

    /// Accepts a ticket.
    pub(crate) fn submit(&mut self, request: &api::SubmitBody) -> Result<api::SubmittedBody, Problem> {
        self.post("/v1/tickets", request).and_then(|body| parse(&body))
    }

    /// Everything that is known of a ticket, as JSON.
    pub(crate) fn show(&mut self, ticket: &str) -> Result<Vec<u8>, Problem> {
        self.get(&ticket_path(ticket, ""))
    }

    /// Waits for the last word, or until the limit is over; the view as JSON and as it is read.
    pub(crate) fn wait(
        &mut self,
        ticket: &str,
        limit: Option<Duration>,
    ) -> Result<(Vec<u8>, api::TicketView), Problem> {
        let query = limit.map_or_else(String::new, |limit| format!("?timeout_ms={}", limit.as_millis()));
        let body = self.get(&ticket_path(ticket, &format!("/wait{query}")))?;
        let view: api::TicketView = parse(&body)?;
        Ok((body, view))
    }

    /// Output from an offset on; waits for some when there is none yet.
    pub(crate) fn output(&mut self, ticket: &str, from: u64) -> Result<api::OutputBody, Problem> {
        self.output_within(ticket, from, OUTPUT_WAIT)
    }

    /// Output from an offset on; waits a little when there is none yet.
    pub(crate) fn output_soon(&mut self, ticket: &str, from: u64) -> Result<api::OutputBody, Problem> {
        self.output_within(ticket, from, OUTPUT_GLANCE)
    }

    /// Output from an offset on; waits for some for as long as is said.
    pub(crate) fn output_within(
        &mut self,
        ticket: &str,
        from: u64,
        wait: Duration,
    ) -> Result<api::OutputBody, Problem> {
        let (ticket, wait) = (escaped(ticket), wait.as_millis());
        let path = format!("/v1/tickets/{ticket}/output?from={from}&max={OUTPUT_STEP}&wait_ms={wait}");
        self.get(&path).and_then(|body| parse(&body))
    }

    /// Stops a ticket; what was found, as JSON.
    pub(crate) fn cancel(&mut self, ticket: &str, request: &api::CancelBody) -> Result<Vec<u8>, Problem> {
        self.post(&ticket_path(ticket, "/cancel"), request)
    }

    /// Asks for something.
    pub(crate) fn get(&mut self, path: &str) -> Result<Vec<u8>, Problem> {
        let first = self.exchange("GET", path, &[]);
        let answer = match first {
            // A daemon may close a connection that stood idle; asking again does nothing twice.
            Err(error) if went_away(&error) => {
                *self = self.again()?;
                self.exchange("GET", path, &[])
            }
            other => other,
        };
        self.body_of(answer)
    }

    /// Has something done.
    pub(crate) fn post(&mut self, path: &str, request: &impl Serialize) -> Result<Vec<u8>, Problem> {
        let body = serde_json::to_vec(request)
            .map_err(|error| Problem::because("cannot write the request", &error))?;
        let answer = self.exchange("POST", path, &body);
        self.body_of(answer)
    }

    fn body_of(&self, answer: io::Result<Answer>) -> Result<Vec<u8>, Problem> {
        let answer = answer.map_err(|error| {
            let dir = self.dir.display();
            if went_away(&error) {
                Problem::new(
                    Exit::NoDaemon,
                    "daemon_gone",
                    format!("the daemon of {dir} went away before it answered"),
                )
                .hint(format!(
                    "what it acknowledged is kept; start it again with `{}`",
                    places::serve_command(&self.dir)
                ))
            } else {
                Problem::because(format!("cannot talk to the daemon of {dir}"), &error)
            }
        })?;
        if (200..300).contains(&answer.status) { Ok(answer.body) } else { Err(refusal(&answer)) }
    }

    fn exchange(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: agarose\r\n").into_bytes();
        if !body.is_empty() {
            let head = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
            request.extend_from_slice(head.as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
        if let Err(error) = self.stream.write_all(&request) {
            // The server may have refused and closed before it read everything; its answer says why.
            return self.receive().map_err(|_| error);
        }
        self.receive()
    }

    fn receive(&mut self) -> io::Result<Answer> {
        let head = loop {
            if let Some(head) = parse_head(&self.buffer)? {
                break head;
            }
            if self.buffer.len() > HEAD_LIMIT {
                return Err(invalid("the head of the answer has no end"));
            }
            self.fill()?;
        };
        self.buffer.drain(..head.length);
        let body = match head.body {
            BodyLength::Exactly(length) => self.take(length)?,
            BodyLength::Chunked => self.take_chunks()?,
        };
        Ok(Answer { status: head.status, body })
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut piece = [0; 16 * 1024];
        let count = loop {
            match self.stream.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.buffer.extend_from_slice(piece.get(..count).unwrap_or_default());
        Ok(())
    }

    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if self.buffer.len() >= length {
            let rest = self.buffer.split_off(length);
            return Ok(std::mem::replace(&mut self.buffer, rest));
        }
        let mut body = std::mem::take(&mut self.buffer);
        let missing = (length - body.len()) as u64;
        // Memory grows by what comes, not by what the head claims.
        Read::by_ref(&mut self.stream).take(missing).read_to_end(&mut body)?;
        if body.len() == length { Ok(body) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn take_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let (used, size) = loop {
                match httparse::parse_chunk_size(&self.buffer).map_err(|_| invalid("a chunk has no size"))? {
                    httparse::Status::Complete(found) => break found,
                    httparse::Status::Partial => self.fill()?,
                }
            };
            self.buffer.drain(..used);
            let size = usize::try_from(size).map_err(|_| invalid("a chunk is too large"))?;
            body.append(&mut self.take(size)?);
            // The line end after the chunk; after the last one, trailers are not used by our server.
            self.take(2)?;
            if size == 0 {
                return Ok(body);
            }
        }
    }
}

struct HeadOfAnswer {
    status: u16,
    length: usize,
    body: BodyLength,
}

enum BodyLength {
    Exactly(usize),
    Chunked,
}

fn parse_head(bytes: &[u8]) -> io::Result<Option<HeadOfAnswer>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|_| invalid("what answers does not speak HTTP"))?;
    let httparse::Status::Complete(length) = parsed else { return Ok(None) };
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok()).map(str::trim)
    };
    let body = if header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        BodyLength::Chunked
    } else {
        let claimed = header("content-length").map_or(Ok(0), str::parse);
        BodyLength::Exactly(claimed.map_err(|_| invalid("the answer has no valid length"))?)
    };
    Ok(Some(HeadOfAnswer { status: response.code.unwrap_or(0), length, body }))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn went_away(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | ConnectionAborted | UnexpectedEof)
}

/// A value out of an answer.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        Problem::because("the daemon's answer is not understood", &error)
            .hint("is the daemon of another version? `agarose status` shows it")
    })
}

fn refusal(answer: &Answer) -> Problem {
    let Ok(ErrorBody { error }) = serde_json::from_slice(&answer.body) else {
        let text = String::from_utf8_lossy(&answer.body);
        let text: String = text.trim().chars().take(300).collect();
        return Problem::new(Exit::Error, "http", format!("the daemon answered {}: {text}", answer.status));
    };
    let mut problem = Problem::new(exit_of(&error.kind, answer.status), &error.kind, error.message);
    problem.hint = error.hint.filter(|hint| !hint.is_empty());
    problem.ticket = error.ticket;
    problem
}

fn exit_of(kind: &str, status: u16) -> Exit {
    match (kind, status) {
        ("internal", _) => Exit::Error,
        ("gone", _) => Exit::NoDaemon,
        ("bad_request", _) | (_, 400 | 413 | 422) => Exit::Usage,
        (_, 404) => Exit::NotFound,
        (_, 500..=502) => Exit::Error,
        ("busy", _) => Exit::Busy,
        _ => Exit::Refused,
    }
}

/// A segment of a path.
pub(crate) fn escaped(segment: &str) -> String {
    let mut text = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// The path of a ticket.
pub(crate) fn ticket_path(ticket: &str, rest: &str) -> String {
    format!("/v1/tickets/{}{rest}", escaped(ticket))
}

/// The path of a question.
pub(crate) fn permission_path(id: &str) -> String {
    format!("/v1/permissions/{}", escaped(id))
}

/// The path of a session.
pub(crate) fn session_path(session: &str, rest: &str) -> String {
    format!("/v1/sessions/{}{rest}", escaped(session))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A client whose daemon says the given bytes, whatever it is asked, and then goes away.
    fn client_of(answers: &'static [&'static [u8]]) -> (tempfile::TempDir, Client) {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(places::SOCKET)).unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(answer);
            }
        });
        let client = Client::connect(dir.path()).unwrap();
        (dir, client)
    }

    #[test]
    fn an_answer_is_read_by_its_length_or_by_its_chunks() {
        let (_dir, mut client) = client_of(&[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]);
        assert_eq!(client.get("/v1/status").unwrap(), b"{}");
        let chunked: &[&[u8]] =
            &[b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n"];
        let (_dir, mut client) = client_of(chunked);
        assert_eq!(client.get("/v1/status").unwrap(), b"{\"a\":1}");
    }

    #[test]
    fn a_refusal_keeps_its_words_and_gets_its_exit_code() {
        let (_dir, mut client) =
            client_of(&[b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 68\r\n\r\n\
              {\"error\":{\"kind\":\"queue_full\",\"message\":\"full\",\"hint\":\"wait a bit\"}}"]);
        let problem = client.get("/v1/status").unwrap_err();
        assert_eq!((problem.exit, problem.message.as_str()), (Exit::Refused, "full"));
        assert_eq!(problem.hint.as_deref(), Some("wait a bit"));
    }

    #[test]
    fn a_connection_that_was_closed_meanwhile_is_made_again_for_a_question() {
        let (_dir, mut client) = client_of(&[b"", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]"]);
        assert_eq!(client.get("/v1/sessions").unwrap(), b"[]");
    }

    #[test]
    fn a_request_that_does_something_is_never_sent_twice() {
        let (_dir, mut client) = client_of(&[b"", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"]);
        let problem = client.post("/v1/tickets", &api::FlowBody::default()).unwrap_err();
        assert_eq!(problem.exit, Exit::NoDaemon);
    }

    #[test]
    fn a_length_that_is_only_claimed_allocates_nothing() {
        let (_dir, mut client) = client_of(&[
            b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n{",
            b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n{",
        ]);
        assert_eq!(client.get("/v1/status").unwrap_err().kind, "daemon_gone");
    }

    #[test]
    fn a_name_is_escaped_in_a_path() {
        assert_eq!(session_path("a b/ü", "/close"), "/v1/sessions/a%20b%2F%C3%BC/close");
    }
}
