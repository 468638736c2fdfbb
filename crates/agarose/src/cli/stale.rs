//! `agarose stale`: which results of a session can still be trusted, and through what they cannot.

use agarose_engine::stale::{CauseView, StaleView, VerdictView, WhatIfView};

use super::{Global, StaleArgs, sessions::table};
use crate::{
    api::WhatIfBody,
    client::{Client, parse, session_path},
    report::{Exit, Problem, printable, say},
};

pub(super) fn stale(global: &Global, args: &StaleArgs) -> Result<Exit, Problem> {
    let mut client = Client::connect(&global.data_dir()?)?;
    let raw = match &args.what_if {
        Some(cell) => {
            let (code, _) = super::submit::source(args.code.as_deref(), args.file.as_deref())?;
            let request = WhatIfBody { cell: cell.clone(), code };
            client.post(&session_path(&args.session, "/what-if"), &request)?
        }
        None => {
            let policy = if args.current_state { "current_state" } else { "document_order" };
            client.get(&session_path(&args.session, &format!("/stale?policy={policy}")))?
        }
    };
    if global.json {
        say(&String::from_utf8_lossy(&raw));
    } else if args.what_if.is_some() {
        say(&what_if(&parse(&raw)?));
    } else {
        say(&text(&parse(&raw)?));
    }
    Ok(Exit::Done)
}

/// The verdicts for people.
fn text(view: &StaleView) -> String {
    if view.cells.is_empty() {
        return format!("no cell has run in session {}", printable(&view.session));
    }
    let mut rows = vec![["CELL", "VERDICT", "BECAUSE", "FIRST LINE"].map(str::to_owned)];
    for cell in &view.cells {
        rows.push([
            printable(&cell.cell),
            cell.verdict.verdict.clone(),
            because(&cell.verdict),
            printable(&cell.label),
        ]);
    }
    let fresh = view.cells.iter().filter(|cell| agarose_engine::stale::is_fresh(&cell.verdict.verdict));
    let summary = format!("{} of {} results can be trusted", fresh.count(), view.cells.len());
    let mut lines = table(&rows);
    lines.push(String::new());
    lines.push(summary);
    lines.join("\n")
}

/// A verdict in one line.
pub(super) fn told(verdict: &VerdictView) -> String {
    match because(verdict) {
        because if because.is_empty() => verdict.verdict.clone(),
        because => format!("{}: {because}", verdict.verdict),
    }
}

/// Why a result is not fresh, in a few words; along the runs that passed it on.
fn because(verdict: &VerdictView) -> String {
    if verdict.path.is_empty() {
        return verdict.cause.as_ref().map(reason).unwrap_or_default();
    }
    verdict.path.iter().map(reason).collect::<Vec<_>>().join(" ← ")
}

fn reason(cause: &CauseView) -> String {
    let what = cause.what.as_deref().unwrap_or_default();
    let by = cause.cell.as_deref().map(|cell| format!(" by {cell}")).unwrap_or_default();
    let said = match cause.through.as_str() {
        "name" => format!("{what} was changed{by}"),
        "channel" => match &cause.key {
            Some(key) => format!("{} {key} changed{by}", what.replace('_', " ")),
            None => format!("{} changed{by}", what.replace('_', " ")),
        },
        "unknown" => format!("{} may have changed anything{by}", what.replace('_', " ")),
        "producer" => format!("made from a result of {what}"),
        "upstream_edited" => format!("{what} is edited"),
        "upstream_removed" => format!("{what} is removed"),
        _ => String::new(),
    };
    printable(&said)
}

fn what_if(view: &WhatIfView) -> String {
    let list = |cells: &[String]| {
        if cells.is_empty() { "nothing".to_owned() } else { printable(&cells.join(", ")) }
    };
    let mut lines = vec![format!("stale   {}", list(&view.stale)), format!("run     {}", list(&view.rerun))];
    if !view.cycle.is_empty() {
        lines.push(format!("cycle   {} need each other's results", list(&view.cycle)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use agarose_engine::stale::CellVerdict;

    #[test]
    fn a_verdict_is_told_with_the_way_to_the_change() {
        let cause = |through: &str, what: &str, cell: &str| CauseView {
            through: through.into(),
            what: Some(what.into()),
            cell: Some(cell.into()),
            ..CauseView::default()
        };
        let path = vec![cause("producer", "c2", "c2"), cause("name", "x", "c1")];
        let stale = VerdictView { verdict: "stale".into(), cause: Some(path[0].clone()), path };
        let cell = |cell: &str, verdict| CellVerdict { cell: cell.into(), verdict, ..CellVerdict::default() };
        let fresh = VerdictView { verdict: "fresh".into(), ..VerdictView::default() };
        let cells = vec![cell("c1", fresh), cell("c3", stale)];
        let view = StaleView { session: "s".into(), policy: "document_order".into(), cells };
        assert_eq!(
            text(&view).lines().map(str::trim_end).collect::<Vec<_>>(),
            [
                "CELL  VERDICT  BECAUSE                                         FIRST LINE",
                "c1    fresh",
                "c3    stale    made from a result of c2 ← x was changed by c1",
                "",
                "1 of 2 results can be trusted",
            ]
        );
    }
}
