//! Output as JSON: text as text, displays as bundles.

use agarose_engine::{OutputChunk, OutputRun};
use agarose_kernel::wire::{
    Channel,
    frame::{Decoder, Limits, decode},
    worker::{Display, DisplayKind, FromWorker},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;

use crate::api::{DisplayBody, OutputBody, RunBody};

pub(super) fn body(chunk: OutputChunk) -> OutputBody {
    OutputBody {
        runs: chunk.runs.into_iter().map(run).collect(),
        next: chunk.next,
        dropped: chunk.dropped,
        ended: chunk.ended,
    }
}

fn run(run: OutputRun) -> RunBody {
    let mut body = RunBody { start: run.start, length: run.bytes.len() as u64, ..RunBody::default() };
    let channel = match run.channel {
        Channel::Stdout => "stdout",
        Channel::Stderr => "stderr",
        Channel::Display => {
            body.channel = "display".into();
            body.displays = displays(&run.bytes);
            return body;
        }
    };
    body.channel = channel.into();
    match String::from_utf8(run.bytes) {
        Ok(text) => body.text = Some(text),
        Err(error) => {
            body.base64 = Some(BASE64_STANDARD.encode(error.as_bytes()));
            body.text = Some(String::from_utf8_lossy(error.as_bytes()).into_owned());
        }
    }
    body
}

/// The displays in whole frames of the worker's wire.
fn displays(bytes: &[u8]) -> Vec<DisplayBody> {
    let mut decoder = Decoder::new(Limits::USUAL);
    decoder.push(bytes);
    let mut displays = Vec::new();
    while let Ok(Some(frame)) = decoder.next_frame() {
        match decode::<FromWorker>(frame.json) {
            Ok(FromWorker::Display(display)) => displays.push(display_body(display, frame.body)),
            Ok(FromWorker::ClearOutput { wait, .. }) => {
                displays.push(DisplayBody { kind: "clear_output".into(), wait, ..DisplayBody::default() });
            }
            // Nothing else is put on this channel.
            Ok(_) | Err(_) => {}
        }
    }
    displays
}

fn display_body(display: Display, mut rest: &[u8]) -> DisplayBody {
    let kind = match display.kind {
        DisplayKind::Display => "display",
        DisplayKind::Result => "result",
        DisplayKind::Update => "update",
    };
    let parts = display.parts.into_iter().map(|part| {
        let length = usize::try_from(part.len).unwrap_or(usize::MAX).min(rest.len());
        let (bytes, after) = rest.split_at(length);
        rest = after;
        (part.mime.clone(), value(&part.mime, bytes))
    });
    DisplayBody {
        kind: kind.into(),
        data: parts.collect(),
        metadata: display.metadata,
        display_id: display.display_id,
        wait: false,
    }
}

/// One form of a display: JSON as JSON, text as text, everything else in base64.
fn value(mime: &str, bytes: &[u8]) -> Value {
    let is_json = mime == "application/json" || mime.ends_with("+json");
    if let Some(value) = is_json.then(|| serde_json::from_slice(bytes).ok()).flatten() {
        return value;
    }
    let is_text = mime.starts_with("text/") || mime == "image/svg+xml" || mime == "application/javascript";
    match std::str::from_utf8(bytes) {
        Ok(text) if is_text || !is_binary(mime) => text.into(),
        _ if is_text => String::from_utf8_lossy(bytes).into(),
        _ => BASE64_STANDARD.encode(bytes).into(),
    }
}

fn is_binary(mime: &str) -> bool {
    ["image/", "audio/", "video/", "font/"].iter().any(|family| mime.starts_with(family))
        || mime == "application/pdf"
        || mime == "application/octet-stream"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_display_carries_text_as_text_and_pictures_in_base64() {
        assert_eq!(value("text/html", b"<b>"), "<b>");
        assert_eq!(value("text/plain", b"\xff"), "\u{fffd}");
        assert_eq!(value("image/png", b"hi"), "aGk=");
        assert_eq!(value("image/svg+xml", b"<svg/>"), "<svg/>");
        assert_eq!(value("application/vnd.x+json", b"{\"a\":1}"), serde_json::json!({"a": 1}));
        assert_eq!(value("application/latex", b"x"), "x");
    }

    #[test]
    fn bytes_that_are_not_text_are_given_twice() {
        let body = run(OutputRun { channel: Channel::Stdout, start: 3, bytes: vec![b'a', 0xff] });
        assert_eq!(
            body,
            RunBody {
                channel: "stdout".into(),
                start: 3,
                length: 2,
                text: Some("a\u{fffd}".into()),
                base64: Some("Yf8=".into()),
                ..RunBody::default()
            }
        );
    }
}
