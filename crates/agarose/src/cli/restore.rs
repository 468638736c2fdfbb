//! `agarose restore`: a namespace that is built anew, and how much of it is there again.

use agarose_engine::restore::{RestoreView, StepView};

use signal_hook::{consts::SIGINT, iterator::Signals};

use super::{Global, RestoreArgs, owner, sessions::table};
use crate::{
    api::{RestoreBody, RestoreCancelBody},
    client::{Client, parse, session_path},
    report::{Exit, Problem, note, printable, say},
};

pub(super) fn restore(global: &Global, args: &RestoreArgs) -> Result<Exit, Problem> {
    let mut client = Client::connect(&global.data_dir()?)?;
    let request = RestoreBody {
        language: args.language.clone(),
        names: args.names.iter().map(|name| name.trim().to_owned()).collect(),
        dry_run: args.dry_run,
    };
    stop_on_interrupt(&client, &args.session)?;
    let raw = client.post(&session_path(&args.session, "/restore"), &request)?;
    let view: RestoreView = parse(&raw)?;
    if global.json {
        say(&String::from_utf8_lossy(&raw));
    } else {
        say(&text(&view));
    }
    let good = view.dry_run || view.outcome == "complete";
    Ok(if good { Exit::Done } else { Exit::Failed })
}

/// Ctrl-C: the first stops the restore, whose answer then says so; the second goes away.
fn stop_on_interrupt(client: &Client, session: &str) -> Result<(), Problem> {
    let (dir, path) = (client.data_dir().to_path_buf(), session_path(session, "/restore/cancel"));
    let stop = RestoreCancelBody { owner: owner(None)? };
    let mut pressed =
        Signals::new([SIGINT]).map_err(|error| Problem::because("cannot watch for Ctrl-C", &error))?;
    std::thread::spawn(move || {
        for (presses, _) in pressed.forever().enumerate() {
            if presses > 0 {
                std::process::exit(i32::from(Exit::Busy as u8));
            }
            let stopped = Client::connect(&dir).and_then(|mut client| client.post(&path, &stop));
            if let Err(problem) = stopped {
                note(&format!("the restore goes on: {}", problem.sentence()));
            }
        }
    });
    Ok(())
}

/// A restore for people.
fn text(view: &RestoreView) -> String {
    let mut rows = vec![["CELL", "POLICY", "STATE", "FIRST LINE"].map(str::to_owned)];
    for step in &view.steps {
        rows.push([printable(&step.cell), step.policy.clone(), step.state.clone(), printable(&step.label)]);
    }
    let mut lines = if view.steps.is_empty() { Vec::new() } else { table(&rows) };
    lines.extend(view.steps.iter().filter_map(remark));
    lines.extend(view.missing.iter().map(|missing| {
        format!("{} is not rebuilt: {}", printable(&missing.name), printable(&missing.reason))
    }));
    lines.extend(view.reasons.iter().map(|reason| printable(reason)));
    let names = if view.restored.is_empty() { "nothing".to_owned() } else { view.restored.join(", ") };
    lines.push(if view.dry_run {
        format!("{} at best: {}", view.outcome, printable(&names))
    } else {
        format!("{}: {}", view.outcome, printable(&names))
    });
    lines.join("\n")
}

/// What is to be said of a step: why it was not done, or under which conditions it was.
fn remark(step: &StepView) -> Option<String> {
    let why = match &step.because {
        Some(because) => because.clone(),
        None if step.policy == "conditional" => step.reasons.join("; "),
        None => return None,
    };
    Some(format!("{}: {}", printable(&step.cell), printable(&why)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agarose_engine::restore::MissingName;

    #[test]
    fn a_restore_is_told_with_what_was_not_repeated_and_why() {
        let step = |cell: &str, policy: &str, state: &str, because: Option<&str>| StepView {
            cell: cell.into(),
            policy: policy.into(),
            state: state.into(),
            label: format!("# {cell}"),
            because: because.map(str::to_owned),
            ..StepView::default()
        };
        let view = RestoreView {
            outcome: "partial".into(),
            restored: vec!["x".into()],
            missing: vec![MissingName { name: "y".into(), reason: "c2: it uses the network".into() }],
            steps: vec![
                step("c1", "safe", "done", None),
                step("c2", "never", "refused", Some("it uses the network")),
            ],
            ..RestoreView::default()
        };
        assert_eq!(
            text(&view),
            "CELL  POLICY  STATE    FIRST LINE\nc1    safe    done     # c1\nc2    never   refused  # c2\n\
             c2: it uses the network\ny is not rebuilt: c2: it uses the network\npartial: x"
        );
    }
}
