//! Jupyter notebooks: reading formats 3 and 4.

use agarose_core::Language;
use serde_json::{Map, Value};

use super::{Cell, CellKind, Document};

/// What is wrong, and what to do about it.
type Wrong = (String, String);

pub(super) fn read(text: &str) -> Result<Document, Wrong> {
    let again = || String::from("open it in Jupyter and save it again, or run the script it was made from");
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let what =
            if text.trim().is_empty() { "it is empty".into() } else { format!("it is not JSON ({error})") };
        (what, again())
    })?;
    let Value::Object(mut notebook) = value else {
        return Err(("it is JSON, but not an object".into(), again()));
    };
    let Some(format) = notebook.get("nbformat").and_then(Value::as_u64) else {
        return Err(("it is JSON without `nbformat`".into(), again()));
    };
    let cells = match format {
        4 => take_array(&mut notebook, "cells"),
        3 => take_array(&mut notebook, "worksheets").map(|sheets| {
            let objects = sheets.into_iter().filter_map(|sheet| match sheet {
                Value::Object(mut sheet) => take_array(&mut sheet, "cells"),
                _ => None,
            });
            objects.flatten().collect()
        }),
        1 | 2 => {
            let hint = "convert it with `jupyter nbconvert --to notebook`";
            return Err((format!("its format {format} is older than 3"), hint.into()));
        }
        _ => {
            let hint = "save it in format 4, or use a later version of Agarose";
            return Err((format!("its format {format} is newer than 4"), hint.into()));
        }
    };
    let Some(cells) = cells else { return Err(("it has no list of cells".into(), again())) };
    let metadata = match notebook.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    let language = language(&metadata)?;
    let cells = cells.into_iter().enumerate().map(|(n, cell)| {
        read_cell(cell, language).ok_or_else(|| (format!("cell {} is not a cell", n + 1), again()))
    });
    Ok(Document { cells: cells.collect::<Result<_, _>>()?, metadata, remarks: Vec::new() })
}

fn take_array(object: &mut Map<String, Value>, key: &str) -> Option<Vec<Value>> {
    match object.remove(key)? {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// The language of a notebook; one that does not say is Python's, as it was before there were others.
fn language(metadata: &Map<String, Value>) -> Result<Language, Wrong> {
    match named_language(metadata) {
        None => Ok(Language::Python),
        Some(Ok(language)) => Ok(language),
        Some(Err(name)) => {
            Err((format!("it is written in {name}"), String::from("Agarose runs Python and R")))
        }
    }
}

/// The language that a notebook says it is written in; the error is its name, where it is not ours.
pub(super) fn named_language(metadata: &Map<String, Value>) -> Option<Result<Language, &str>> {
    let at = |outer: &str, inner: &str| metadata.get(outer)?.get(inner)?.as_str();
    let named = [("language_info", "name"), ("kernelspec", "language")];
    let Some(name) = named.into_iter().find_map(|(outer, inner)| at(outer, inner)) else {
        return (at("kernelspec", "name") == Some("ir")).then_some(Ok(Language::R));
    };
    Some(match name.to_ascii_lowercase().as_str() {
        "ipython" | "python3" => Ok(Language::Python),
        other => other.parse().map_err(|_| name),
    })
}

fn read_cell(cell: Value, language: Language) -> Option<Cell> {
    let Value::Object(cell) = cell else { return None };
    let source = cell.get("source").or_else(|| cell.get("input"));
    let mut source = source.map_or(Some(String::new()), text)?;
    // What we write into executed notebooks; format 3 has a language of each cell.
    let ours = cell.get("metadata").and_then(|metadata| metadata.get("agarose"));
    let own = ours.and_then(|ours| ours.get("language")).or_else(|| cell.get("language"));
    let kind = match cell.get("cell_type")?.as_str()? {
        "code" if ours.and_then(|ours| ours.get("runs")) == Some(&Value::Bool(false)) => CellKind::Inert,
        "code" => {
            CellKind::Code(own.and_then(Value::as_str).and_then(|name| name.parse().ok()).unwrap_or(language))
        }
        "markdown" | "html" => CellKind::Markdown,
        "heading" => {
            let level = cell.get("level").and_then(Value::as_u64).unwrap_or(1).clamp(1, 6);
            source = format!("{} {source}", "#".repeat(usize::try_from(level).unwrap_or(1)));
            CellKind::Markdown
        }
        _ => CellKind::Raw,
    };
    let metadata = match cell.get("metadata") {
        Some(Value::Object(metadata)) => metadata.clone(),
        _ => Map::new(),
    };
    let named = ["name", "title"].into_iter().find_map(|key| metadata.get(key)?.as_str());
    let title = named.filter(|name| !name.trim().is_empty()).map(str::to_owned);
    let id = cell.get("id").and_then(Value::as_str).map(str::to_owned);
    let attachments = cell.get("attachments").filter(|value| value.is_object()).cloned();
    Some(Cell { kind, source, title, line: None, id, metadata, attachments })
}

/// Text as a notebook has it: a string, or a list of lines.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(lines) => lines.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        read(text).unwrap_err().0
    }

    #[test]
    fn a_notebook_of_format_4_is_read_with_its_ids_and_metadata() {
        let text = r##"{"nbformat":4,"nbformat_minor":5,"metadata":{"kernelspec":{"language":"R","name":"ir"}},
            "cells":[{"cell_type":"markdown","id":"a1","metadata":{},"source":"# T"},
                     {"cell_type":"code","id":"b2","metadata":{"tags":["x"]},"source":["x <- 1\n","x"],"outputs":[]},
                     {"cell_type":"raw","metadata":{},"source":""}]}"##;
        let document = read(text).unwrap();
        let seen: Vec<_> =
            document.cells.iter().map(|cell| (cell.kind, cell.source.as_str(), cell.id.as_deref())).collect();
        assert_eq!(
            seen,
            [
                (CellKind::Markdown, "# T", Some("a1")),
                (CellKind::Code(Language::R), "x <- 1\nx", Some("b2")),
                (CellKind::Raw, "", None),
            ]
        );
        assert!(document.metadata.contains_key("kernelspec"));
    }

    #[test]
    fn a_cell_of_another_language_or_that_does_not_run_is_one_again() {
        let text = r#"{"nbformat":4,"metadata":{"language_info":{"name":"python"}},"cells":[
            {"cell_type":"code","metadata":{"agarose":{"language":"r"}},"source":"x"},
            {"cell_type":"code","metadata":{"agarose":{"ticket":"t"}},"source":"x"},
            {"cell_type":"code","metadata":{"agarose":{"runs":false}},"source":"x"},
            {"cell_type":"code","metadata":{"agarose":{"language":"cobol"}},"source":"x"}]}"#;
        let kinds: Vec<CellKind> = read(text).unwrap().cells.iter().map(|cell| cell.kind).collect();
        let python = CellKind::Code(Language::Python);
        assert_eq!(kinds, [CellKind::Code(Language::R), python, CellKind::Inert, python]);
    }

    #[test]
    fn a_notebook_of_format_3_has_sheets_and_inputs() {
        let text = r#"{"nbformat":3,"metadata":{"name":""},"worksheets":[{"cells":[
            {"cell_type":"heading","level":2,"source":"T"},
            {"cell_type":"code","language":"python","input":["print 1"],"outputs":[]}]}]}"#;
        let cells = read(text).unwrap().cells;
        assert_eq!((cells[0].kind, cells[0].source.as_str()), (CellKind::Markdown, "## T"));
        assert_eq!((cells[1].kind, cells[1].source.as_str()), (CellKind::Code(Language::Python), "print 1"));
    }

    #[test]
    fn what_is_not_a_notebook_is_refused_with_what_it_is() {
        assert_eq!(wrong(" "), "it is empty");
        assert!(wrong("x = 1").starts_with("it is not JSON ("));
        assert_eq!(wrong("[1]"), "it is JSON, but not an object");
        assert_eq!(wrong("{}"), "it is JSON without `nbformat`");
        assert_eq!(wrong(r#"{"nbformat":4}"#), "it has no list of cells");
        assert_eq!(wrong(r#"{"nbformat":2}"#), "its format 2 is older than 3");
        assert_eq!(wrong(r#"{"nbformat":9,"cells":[]}"#), "its format 9 is newer than 4");
        assert_eq!(wrong(r#"{"nbformat":4,"cells":[{"source":1}]}"#), "cell 1 is not a cell");
    }

    #[test]
    fn a_notebook_in_another_language_is_refused_by_name() {
        let text = r#"{"nbformat":4,"cells":[],"metadata":{"language_info":{"name":"julia"}}}"#;
        assert_eq!(
            read(text).unwrap_err(),
            ("it is written in julia".into(), "Agarose runs Python and R".into())
        );
    }
}
