//! Verdicts on many sessions: reads JSON lines `{"lang", "policy"?, "order"?, "runs": [{"cell", "src",
//! "status"?, "evidence"?}]}`, writes one line per session: the verdict on each run, with its cause.

use std::io::{BufRead, Write};
use std::sync::Arc;

use agarose_analysis::stale::{Policy, Project, Run, Status};
use agarose_analysis::{Language, analyse};

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let session: serde_json::Value = serde_json::from_str(&line?)?;
        let language = if session["lang"] == "r" { Language::R } else { Language::Python };
        let policy =
            if session["policy"] == "document_order" { Policy::DocumentOrder } else { Policy::CurrentState };
        let mut project = Project::new();
        if let Some(order) = session["order"].as_array() {
            project.arrange(order.iter().filter_map(|cell| cell.as_str()));
        }
        for run in session["runs"].as_array().into_iter().flatten() {
            let status = match run["status"].as_str() {
                Some("failed") => Status::Failed,
                Some("rejected") => Status::Rejected,
                Some("interrupted") => Status::Interrupted,
                _ => Status::Completed,
            };
            project.append(Run {
                cell: run["cell"].as_str().unwrap_or("").to_owned(),
                facts: Arc::new(analyse(language, run["src"].as_str().unwrap_or(""))),
                status,
                generation: 1,
                evidence: serde_json::from_value(run["evidence"].clone())?,
            });
        }
        serde_json::to_writer(&mut out, &project.verdicts(policy))?;
        writeln!(out)?;
    }
    out.flush()
}
