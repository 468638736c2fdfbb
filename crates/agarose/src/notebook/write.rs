//! Executed notebooks: nbformat 4.5, written whole or not at all.
//!
//! Outputs are those of the merged stream, in the order in which the worker produced them. What was
//! dropped on the way is said where it is missing, and our four numbers stand under `agarose` in the
//! metadata of the cell.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Write as _},
    path::Path,
};

use agarose_core::Language;
use serde_json::{Map, Value, json};

use super::{Cell, CellKind, Document};
use crate::{
    api::{DisplayBody, TicketView},
    duration,
};

/// How a cell went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ran {
    /// Its ticket, at its last word.
    pub(crate) view: TicketView,
    /// Its output, in order.
    pub(crate) pieces: Vec<Piece>,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// Bytes of stdout.
    Stdout(Vec<u8>),
    /// Bytes of stderr.
    Stderr(Vec<u8>),
    /// So many bytes are missing here.
    Dropped(u64),
    /// Something that was shown.
    Display(DisplayBody),
}

/// Writes a document with what its cells gave; `ran` has one place for each cell.
///
/// # Errors
/// The file cannot be written; what was there before is untouched then.
pub(crate) fn write(path: &Path, document: &Document, ran: &[Option<Ran>]) -> io::Result<()> {
    let notebook = notebook(document, ran);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".agarose-")
        .suffix(".ipynb")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .tempfile_in(directory)?;
    let mut out = io::BufWriter::new(file.as_file_mut());
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    serde::Serialize::serialize(&notebook, &mut serializer)?;
    out.write_all(b"\n")?;
    out.flush()?;
    drop(out);
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

fn notebook(document: &Document, ran: &[Option<Ran>]) -> Value {
    let language = main_language(document);
    let mut metadata = document.metadata.clone();
    complete_kernelspec(&mut metadata, language);
    let session =
        ran.iter().flatten().map(|ran| ran.view.session.as_str()).find(|session| !session.is_empty());
    let mut ours = json!({ "version": env!("CARGO_PKG_VERSION") });
    if let Some(session) = session {
        set(&mut ours, "session", session.into());
    }
    metadata.insert("agarose".into(), ours);
    let mut ids = Ids::default();
    let mut count = 0;
    let mut cells = Vec::with_capacity(document.cells.len());
    for (n, cell) in document.cells.iter().enumerate() {
        let ran = ran.get(n).and_then(Option::as_ref);
        // Numbers as a reader expects them: in the order of running, from 1.
        let number = ran.map(|_| {
            count += 1;
            count
        });
        cells.push(cell_value(cell, ids.of(cell, n), ran, number, language));
    }
    json!({ "cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5 })
}

/// The language that a reader takes a cell for which does not name its own.
fn main_language(document: &Document) -> Language {
    let languages = document.cells.iter().filter_map(|cell| match cell.kind {
        CellKind::Code(language) => Some(language),
        CellKind::Inert | CellKind::Markdown | CellKind::Raw => None,
    });
    let named = super::ipynb::named_language(&document.metadata).and_then(Result::ok);
    named.or_else(|| languages.into_iter().next()).unwrap_or(Language::Python)
}

fn complete_kernelspec(metadata: &mut Map<String, Value>, language: Language) {
    let (name, display, word) = match language {
        Language::Python => ("python3", "Python 3", "python"),
        Language::R => ("ir", "R", "R"),
    };
    let has = |outer: &str, inner: &str| {
        metadata.get(outer).and_then(|v| v.get(inner)).is_some_and(Value::is_string)
    };
    if !(has("kernelspec", "name") && has("kernelspec", "display_name")) {
        let spec = json!({ "name": name, "display_name": display, "language": word });
        metadata.insert("kernelspec".into(), spec);
    }
    if !metadata.get("language_info").and_then(|v| v.get("name")).is_some_and(Value::is_string) {
        metadata.insert("language_info".into(), json!({ "name": word }));
    }
}

/// Ids that are valid and appear once.
#[derive(Default)]
struct Ids {
    taken: BTreeSet<String>,
}

impl Ids {
    fn of(&mut self, cell: &Cell, n: usize) -> String {
        let valid = |id: &&String| {
            (1..=64).contains(&id.len()) && id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        };
        let own = cell.id.as_ref().filter(valid).cloned();
        let numbered = std::iter::successors(Some(0_usize), |k| Some(k + 1)).map(|k| match k {
            0 => format!("cell-{}", n + 1),
            _ => format!("cell-{}-{k}", n + 1),
        });
        let id = own.into_iter().chain(numbered).find(|id| !self.taken.contains(id)).unwrap_or_default();
        self.taken.insert(id.clone());
        id
    }
}

fn cell_value(cell: &Cell, id: String, ran: Option<&Ran>, number: Option<u64>, main: Language) -> Value {
    let mut metadata = cell.metadata.clone();
    metadata.retain(|key, value| valid_metadata(key, value));
    if let Some(title) = cell.title.as_ref().filter(|_| cell.line.is_some()) {
        metadata.insert("title".into(), title.as_str().into());
    }
    let mut value = json!({ "id": id, "source": lines(&cell.source) });
    match cell.kind {
        CellKind::Code(_) | CellKind::Inert => {
            let mut ours = ran.map_or_else(|| json!({}), |ran| our_metadata(&ran.view));
            match cell.kind {
                CellKind::Code(language) if language != main => {
                    set(&mut ours, "language", language.as_str().into());
                }
                CellKind::Inert => set(&mut ours, "runs", false.into()),
                CellKind::Code(_) | CellKind::Markdown | CellKind::Raw => {}
            }
            if ours.as_object().is_some_and(|ours| !ours.is_empty()) {
                metadata.insert("agarose".into(), ours);
            } else {
                metadata.remove("agarose");
            }
            set(&mut value, "cell_type", "code".into());
            set(&mut value, "execution_count", number.map_or(Value::Null, Value::from));
            let outputs = ran.map_or_else(Vec::new, |ran| outputs(ran, number.unwrap_or(0)));
            set(&mut value, "outputs", outputs.into());
        }
        CellKind::Markdown => set(&mut value, "cell_type", "markdown".into()),
        CellKind::Raw => set(&mut value, "cell_type", "raw".into()),
    }
    if let (CellKind::Markdown | CellKind::Raw, Some(attachments)) = (cell.kind, &cell.attachments) {
        set(&mut value, "attachments", attachments.clone());
    }
    set(&mut value, "metadata", metadata.into());
    value
}

/// The keys that nbformat gives a type of their own; an option of a script may have another.
fn valid_metadata(key: &str, value: &Value) -> bool {
    match key {
        "collapsed" | "deletable" | "editable" => value.is_boolean(),
        "scrolled" => value.is_boolean() || value == "auto",
        "name" | "format" => value.as_str().is_some_and(|text| !text.is_empty()),
        "jupyter" | "execution" => value.is_object(),
        "tags" => value.as_array().is_some_and(|tags| {
            tags.iter().all(|tag| tag.as_str().is_some_and(|tag| !tag.is_empty() && !tag.contains(',')))
        }),
        _ => true,
    }
}

fn our_metadata(view: &TicketView) -> Value {
    let mut ours = json!({ "ticket": view.ticket, "state": view.state });
    let texts = [
        ("executed", &view.executed),
        ("generation", &view.generation),
        ("started_at", &view.started_at),
        ("finished_at", &view.finished_at),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            set(&mut ours, key, text.as_str().into());
        }
    }
    for (key, stream) in [("stdout", &view.stdout), ("stderr", &view.stderr)] {
        if stream.seen > 0
            && let Ok(counters) = serde_json::to_value(stream)
        {
            set(&mut ours, key, counters);
        }
    }
    ours
}

fn outputs(ran: &Ran, number: u64) -> Vec<Value> {
    let mut outputs = Outputs::default();
    for piece in &ran.pieces {
        match piece {
            Piece::Stdout(bytes) => outputs.text("stdout", bytes),
            Piece::Stderr(bytes) => outputs.text("stderr", bytes),
            Piece::Dropped(count) => {
                let text = format!("\n[agarose: {} of output were not kept here]\n", duration::bytes(*count));
                outputs.text("stderr", text.as_bytes());
            }
            Piece::Display(display) => outputs.display(display, number),
        }
    }
    if let Some(error) = &ran.view.error {
        let name = error.name.clone().unwrap_or_else(|| error.kind.clone());
        let message = error.message.clone().unwrap_or_default();
        let traceback = error.traceback.as_deref().unwrap_or(&message);
        let traceback: Vec<&str> = traceback.trim_end_matches('\n').split('\n').collect();
        outputs.push(
            json!({ "output_type": "error", "ename": name, "evalue": message, "traceback": traceback }),
            None,
        );
    }
    outputs.finish()
}

/// Outputs as they come, with those that a later one replaces or clears.
#[derive(Default)]
struct Outputs {
    done: Vec<(Value, Option<String>)>,
    stream: Option<(&'static str, Vec<u8>)>,
    clear_next: bool,
}

impl Outputs {
    fn text(&mut self, name: &'static str, bytes: &[u8]) {
        self.clear_if_asked();
        match &mut self.stream {
            Some((open, text)) if *open == name => text.extend_from_slice(bytes),
            _ => {
                self.close_stream();
                self.stream = Some((name, bytes.to_vec()));
            }
        }
    }

    fn close_stream(&mut self) {
        if let Some((name, bytes)) = self.stream.take() {
            let text = lines(&String::from_utf8_lossy(&bytes));
            self.done.push((json!({ "output_type": "stream", "name": name, "text": text }), None));
        }
    }

    fn push(&mut self, output: Value, display_id: Option<String>) {
        self.clear_if_asked();
        self.close_stream();
        self.done.push((output, display_id));
    }

    fn clear_if_asked(&mut self) {
        if std::mem::take(&mut self.clear_next) {
            self.done.clear();
            self.stream = None;
        }
    }

    fn display(&mut self, display: &DisplayBody, number: u64) {
        let data = bundle(&display.data);
        let metadata = display.metadata.clone();
        let id = display.display_id.clone();
        match display.kind.as_str() {
            "clear_output" => {
                self.clear_next = true;
                if !display.wait {
                    self.clear_if_asked();
                }
            }
            "update" => {
                for (output, _) in self.done.iter_mut().filter(|(_, known)| known.is_some() && *known == id) {
                    set(output, "data", data.clone());
                    set(output, "metadata", metadata.clone().into());
                }
            }
            "result" => self.push(
                json!({ "output_type": "execute_result", "execution_count": number,
                        "data": data, "metadata": metadata }),
                id,
            ),
            _ => {
                self.push(json!({ "output_type": "display_data", "data": data, "metadata": metadata }), id);
            }
        }
    }

    fn finish(mut self) -> Vec<Value> {
        self.close_stream();
        self.done.into_iter().map(|(output, _)| output).collect()
    }
}

/// A bundle as notebooks have it: text as lines, JSON as it is, the rest as one string.
fn bundle(data: &Map<String, Value>) -> Value {
    let entries = data.iter().map(|(mime, value)| {
        let value = match value {
            Value::String(text) if mime.starts_with("text/") || mime == "image/svg+xml" => lines(text),
            other => other.clone(),
        };
        (mime.clone(), value)
    });
    Value::Object(entries.collect())
}

/// Text as a notebook has it: a list of lines with their ends.
fn lines(text: &str) -> Value {
    text.split_inclusive('\n').collect::<Vec<_>>().into()
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(map) = object {
        map.insert(key.into(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ErrorView, StreamView};

    fn shown(kind: &str, data: Value) -> Piece {
        let Value::Object(data) = data else { panic!("a bundle is an object") };
        Piece::Display(DisplayBody { kind: kind.into(), data, ..DisplayBody::default() })
    }

    fn of(pieces: Vec<Piece>) -> Vec<Value> {
        outputs(&Ran { view: TicketView::default(), pieces }, 7)
    }

    /// The rules of nbformat 4.5 that a writer can break.
    fn assert_valid(notebook: &Value) {
        assert_eq!((notebook["nbformat"].as_u64(), notebook["nbformat_minor"].as_u64()), (Some(4), Some(5)));
        assert!(notebook["metadata"]["kernelspec"]["display_name"].is_string());
        let mut ids = BTreeSet::new();
        for cell in notebook["cells"].as_array().unwrap() {
            let id = cell["id"].as_str().unwrap();
            assert!((1..=64).contains(&id.len()) && ids.insert(id), "{id}");
            assert!(cell["metadata"].is_object() && cell["source"].is_array());
            let mut keys: Vec<_> = cell.as_object().unwrap().keys().map(String::as_str).collect();
            keys.retain(|key| *key != "attachments");
            if cell["cell_type"] == "code" {
                assert_eq!(keys, ["cell_type", "execution_count", "id", "metadata", "outputs", "source"]);
                for output in cell["outputs"].as_array().unwrap() {
                    let mut keys: Vec<_> = output.as_object().unwrap().keys().map(String::as_str).collect();
                    keys.retain(|key| *key != "output_type");
                    match output["output_type"].as_str().unwrap() {
                        "stream" => assert_eq!(keys, ["name", "text"]),
                        "display_data" => assert_eq!(keys, ["data", "metadata"]),
                        "execute_result" => assert_eq!(keys, ["data", "execution_count", "metadata"]),
                        "error" => assert_eq!(keys, ["ename", "evalue", "traceback"]),
                        other => panic!("{other} is not an output"),
                    }
                }
            } else {
                assert_eq!(keys, ["cell_type", "id", "metadata", "source"]);
            }
        }
    }

    #[test]
    fn text_of_one_channel_is_one_output_and_order_is_kept() {
        let pieces = vec![
            Piece::Stdout(b"a\nb".to_vec()),
            Piece::Stdout("é\n".as_bytes()[..1].to_vec()),
            Piece::Stdout("é\n".as_bytes()[1..].to_vec()),
            Piece::Stderr(b"w\n".to_vec()),
            Piece::Stdout(b"\xff".to_vec()),
        ];
        assert_eq!(
            of(pieces),
            [
                json!({"output_type": "stream", "name": "stdout", "text": ["a\n", "bé\n"]}),
                json!({"output_type": "stream", "name": "stderr", "text": ["w\n"]}),
                json!({"output_type": "stream", "name": "stdout", "text": ["\u{fffd}"]}),
            ]
        );
    }

    #[test]
    fn results_displays_and_what_replaces_them_become_outputs() {
        let update = |kind: &str, text: &str| {
            let Piece::Display(mut display) = shown(kind, json!({ "text/plain": text })) else {
                unreachable!()
            };
            display.display_id = Some("d".into());
            Piece::Display(display)
        };
        let pieces = vec![
            update("display", "10 %"),
            update("update", "100 %"),
            shown("display", json!({"image/png": "aGk=", "text/plain": "<Figure>"})),
            shown("result", json!({"text/plain": "1\n2", "application/json": {"a": 1}})),
        ];
        assert_eq!(
            of(pieces),
            [
                json!({"output_type": "display_data", "metadata": {}, "data": {"text/plain": ["100 %"]}}),
                json!({"output_type": "display_data", "metadata": {},
                       "data": {"image/png": "aGk=", "text/plain": ["<Figure>"]}}),
                json!({"output_type": "execute_result", "execution_count": 7, "metadata": {},
                       "data": {"text/plain": ["1\n", "2"], "application/json": {"a": 1}}}),
            ]
        );
    }

    #[test]
    fn clearing_takes_effect_at_once_or_with_the_next_output() {
        let clear = |wait| {
            Piece::Display(DisplayBody { kind: "clear_output".into(), wait, ..DisplayBody::default() })
        };
        let out = |text: &str| Piece::Stdout(text.as_bytes().to_vec());
        assert_eq!(of(vec![out("a"), clear(false)]), Vec::<Value>::new());
        assert_eq!(of(vec![out("a"), clear(true)]).len(), 1);
        let after = of(vec![out("a"), clear(true), out("b")]);
        assert_eq!(after, [json!({"output_type": "stream", "name": "stdout", "text": ["b"]})]);
    }

    #[test]
    fn what_was_dropped_is_said_where_it_is_missing() {
        let outputs = of(vec![Piece::Dropped(2_000_000)]);
        assert_eq!(outputs[0]["text"][1], "[agarose: 2.0 MB of output were not kept here]\n");
    }

    #[test]
    fn every_cell_of_an_executed_notebook_is_read_again_in_its_language() {
        let (python, r) = (CellKind::Code(Language::Python), CellKind::Code(Language::R));
        for metadata in
            [json!({}), json!({"language_info": {"name": "python"}}), json!({"kernelspec": {"name": "ir"}})]
        {
            for kinds in [[python, r], [r, python], [CellKind::Inert, r]] {
                let document = Document {
                    cells: kinds.map(|kind| Cell::new(kind, "x".into())).into(),
                    metadata: metadata.as_object().cloned().unwrap(),
                    remarks: Vec::new(),
                };
                let written = notebook(&document, &[None, None]).to_string();
                let again = super::super::ipynb::read(&written).unwrap();
                let read: Vec<CellKind> = again.cells.iter().map(|cell| cell.kind).collect();
                assert_eq!(read, kinds, "{metadata}");
            }
        }
    }

    #[test]
    fn an_executed_notebook_obeys_nbformat_and_keeps_what_it_was_read_from() {
        let text = r##"{"nbformat":4,"nbformat_minor":2,"metadata":{"mine":1},"cells":[
            {"cell_type":"markdown","metadata":{},"source":"![](attachment:a.png)",
             "attachments":{"a.png":{"image/png":"aGk="}}},
            {"cell_type":"code","id":"same","metadata":{"tags":["x"]},"source":"1","outputs":[{"old":1}]},
            {"cell_type":"code","id":"same","metadata":{},"source":"2","outputs":[]},
            {"cell_type":"code","id":"not valid","metadata":{},"source":"3","outputs":[]}]}"##;
        let document = super::super::ipynb::read(text).unwrap();
        let view = TicketView {
            ticket: "01t".into(),
            session: "s".into(),
            state: "failed".into(),
            stdout: StreamView {
                seen: 9,
                retained: 4,
                dropped: 5,
                truncated: true,
                unit: "bytes".into(),
                ..StreamView::default()
            },
            error: Some(ErrorView {
                kind: "user".into(),
                name: Some("ValueError".into()),
                message: Some("no".into()),
                traceback: Some("Traceback\nValueError: no\n".into()),
                ..ErrorView::default()
            }),
            ..TicketView::default()
        };
        let ran = Ran { view, pieces: vec![Piece::Stdout(b"1234".to_vec())] };
        let notebook = notebook(&document, &[None, Some(Ran::default()), Some(ran), None]);
        assert_valid(&notebook);
        let cells = notebook["cells"].as_array().unwrap();
        let ids: Vec<_> = cells.iter().map(|cell| cell["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["cell-1", "same", "cell-3", "cell-4"]);
        assert_eq!(cells[0]["attachments"]["a.png"]["image/png"], "aGk=");
        assert_eq!(notebook["metadata"]["mine"], 1);
        assert_eq!(cells[2]["execution_count"], 2);
        assert_eq!(cells[3]["execution_count"], Value::Null);
        assert_eq!(
            cells[2]["metadata"]["agarose"]["stdout"],
            json!({"seen": 9, "retained": 4, "dropped": 5, "truncated": true, "unit": "bytes"})
        );
        assert_eq!(
            cells[2]["outputs"][1],
            json!({"output_type": "error", "ename": "ValueError", "evalue": "no",
                   "traceback": ["Traceback", "ValueError: no"]})
        );
    }

    #[test]
    fn a_script_becomes_a_valid_notebook_with_its_titles() {
        let text = "# %% [markdown]\n# T\n# %% load tags=\"x\" name=\"n\"\n1\n";
        let document = super::super::percent::read(text, Language::Python);
        let notebook = notebook(&document, &[None, None]);
        assert_valid(&notebook);
        assert_eq!(notebook["cells"][1]["metadata"], json!({"title": "load", "name": "n"}));
    }

    #[test]
    fn a_notebook_is_written_whole_with_the_rights_that_a_file_has() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.ipynb");
        let document = super::super::percent::read("1", Language::Python);
        write(&path, &document, &[None]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("}\n"));
        assert_valid(&serde_json::from_str(&text).unwrap());
        assert_ne!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o400, 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write(&dir.path().join("no/out.ipynb"), &document, &[None]).is_err());
    }
}
