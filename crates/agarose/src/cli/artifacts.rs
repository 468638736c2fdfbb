//! `agarose artifacts` and `lineage`: what cells have saved, and where it came from.

use serde::Deserialize;

use super::{ArtifactsArgs, Global, LineageArgs, sessions::table};
use crate::{
    client::{Client, escaped, parse},
    report::{Exit, Problem, note, printable, say},
};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Artifact {
    version_id: String,
    name: String,
    version: u64,
    session: String,
    content_type: String,
    size: u64,
    saved_at: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Lineage {
    nodes: Vec<Artifact>,
    edges: Vec<(String, String)>,
    truncated: bool,
}

pub(super) fn list(global: &Global, args: &ArtifactsArgs) -> Result<Exit, Problem> {
    let body = Client::connect(&global.data_dir()?)?.get("/v1/artifacts")?;
    let wanted = |session: &str| args.session.as_deref().is_none_or(|name| name == session);
    if global.json {
        let mut all: Vec<serde_json::Value> = parse(&body)?;
        all.retain(|artifact| artifact["session"].as_str().is_some_and(wanted));
        say(&serde_json::Value::Array(all).to_string());
        return Ok(Exit::Done);
    }
    let all: Vec<Artifact> = parse(&body)?;
    let mut rows = vec![["version", "name", "session", "type", "bytes", "saved"].map(str::to_owned)];
    rows.extend(all.iter().filter(|artifact| wanted(&artifact.session)).map(row));
    if rows.len() == 1 {
        note("no artifact was saved; cells save them with host.save_artifact(path)");
    } else {
        table(&rows).iter().for_each(|line| say(line));
    }
    Ok(Exit::Done)
}

fn row(artifact: &Artifact) -> [String; 6] {
    [
        artifact.version_id.clone(),
        format!("{} v{}", printable(&artifact.name), artifact.version),
        artifact.session.clone(),
        artifact.content_type.clone(),
        artifact.size.to_string(),
        artifact.saved_at.clone(),
    ]
}

pub(super) fn lineage(global: &Global, args: &LineageArgs) -> Result<Exit, Problem> {
    let path = format!("/v1/artifacts/{}/lineage", escaped(&args.id));
    let body = Client::connect(&global.data_dir()?)?.get(&path)?;
    if global.json {
        say(&String::from_utf8_lossy(&body));
        return Ok(Exit::Done);
    }
    let lineage: Lineage = parse(&body)?;
    for node in &lineage.nodes {
        say(&format!(
            "{}  {} v{}, session {}",
            node.version_id,
            printable(&node.name),
            node.version,
            node.session
        ));
        for (_, from) in lineage.edges.iter().filter(|(made, _)| *made == node.version_id) {
            say(&format!("  from {from}"));
        }
    }
    if lineage.truncated {
        note("there is more than is shown");
    }
    Ok(Exit::Done)
}
