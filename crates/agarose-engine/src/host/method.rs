//! The methods of `host`, and what each of them may take.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{Caller, bash, error::HostError, handlers::Handlers, policy::Verdict};
use crate::host::error::ErrorKind;

/// The longest arguments of a call, in bytes.
pub(crate) const ARGUMENTS_LIMIT: usize = 15 << 20;

/// What a cell asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    Capabilities,
    SubmitOutput(SubmitOutput),
    AuthorizeBash(AuthorizeBash),
    ConsumeBash(ShownBash),
    ReportBash(ReportBash),
    Files(Files),
    SaveArtifact(SaveArtifact),
    Artifacts(Artifacts),
    Document(Document),
    Background(Background),
    /// A method that a driver serves.
    Handler {
        method: String,
        arguments: Value,
    },
}

/// What holds of a call before anything is done.
#[derive(Debug)]
pub(crate) struct Traits {
    /// Whether it may be done twice.
    pub(crate) repeatable: bool,
    /// What is to happen where no rule speaks.
    pub(crate) verdict: Verdict,
    /// What rules match on: the command, the path, the code.
    pub(crate) subject: String,
    /// What is written down of its arguments, where that is not the subject nor all of them.
    pub(crate) shown: Option<String>,
}

impl Traits {
    /// Of what is not going to be done.
    pub(crate) const fn refused() -> Self {
        Self { repeatable: true, verdict: Verdict::Allow, subject: String::new(), shown: None }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SubmitOutput {
    pub(crate) output: Value,
    pub(crate) completion_bullets: Vec<String>,
    #[serde(default)]
    pub(crate) output_schema: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AuthorizeBash {
    pub(crate) command: String,
    pub(crate) command_sha256: String,
    pub(crate) cwd: String,
    pub(crate) generation: String,
    pub(crate) challenge: String,
    pub(crate) timeout_ms: u64,
    #[serde(default)]
    pub(crate) detach: bool,
}

/// A capability as a worker shows it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ShownBash {
    pub(crate) token: String,
    pub(crate) command_sha256: String,
    pub(crate) cwd: String,
    pub(crate) root: String,
    pub(crate) generation: String,
    pub(crate) challenge: String,
    pub(crate) issued_ms: u64,
    pub(crate) expires_ms: u64,
    pub(crate) detach: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReportBash {
    pub(crate) token: String,
    pub(crate) status: agarose_core::capability::BashStatus,
    #[serde(default)]
    pub(crate) exit_code: Option<i32>,
    pub(crate) wall_ms: u64,
    pub(crate) stdout_seen: u64,
    pub(crate) stdout_retained: u64,
    pub(crate) stderr_seen: u64,
    pub(crate) stderr_retained: u64,
    pub(crate) stopped: u64,
}

#[derive(Debug)]
pub(crate) enum Files {
    Read(ReadFile),
    Write(WriteFile),
    Edit(EditFile),
    Glob(Glob),
    Grep(Grep),
    List(ListDir),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReadFile {
    pub(crate) path: String,
    /// The first line, counted from 0.
    #[serde(default)]
    pub(crate) offset: u64,
    /// The most lines.
    #[serde(default = "two_thousand")]
    pub(crate) limit: u64,
}

const fn two_thousand() -> u64 {
    2000
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WriteFile {
    pub(crate) path: String,
    pub(crate) content: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EditFile {
    pub(crate) path: String,
    pub(crate) old: String,
    pub(crate) new: String,
    #[serde(default)]
    pub(crate) replace_all: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Glob {
    pub(crate) pattern: String,
    #[serde(default)]
    pub(crate) path: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Grep {
    pub(crate) pattern: String,
    #[serde(default)]
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) include: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListDir {
    #[serde(default)]
    pub(crate) path: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SaveArtifact {
    /// A file of the workspace.
    #[serde(default)]
    pub(crate) path: Option<String>,
    /// Or the bytes themselves, in Base64.
    #[serde(default)]
    pub(crate) content: Option<Bytes>,
    #[serde(default)]
    pub(crate) filename: Option<String>,
    #[serde(default)]
    pub(crate) content_type: Option<String>,
    #[serde(default)]
    pub(crate) input_version_ids: Vec<String>,
    #[serde(default)]
    pub(crate) source: Option<Value>,
}

/// Bytes as the wire tags them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bytes {
    #[serde(rename = "$bytes")]
    pub(crate) base64: String,
}

#[derive(Debug)]
pub(crate) enum Artifacts {
    List(ListArtifacts),
    Path(Version),
    View(ViewImage),
    Lineage(Version),
    Graph(Graph),
    Materialise(Materialise),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListArtifacts {
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) content_type: Option<String>,
    #[serde(default = "hundred")]
    pub(crate) limit: usize,
}

const fn hundred() -> usize {
    100
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Version {
    pub(crate) version_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ViewImage {
    #[serde(default)]
    pub(crate) version_id: Option<String>,
    #[serde(default)]
    pub(crate) path: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Graph {
    pub(crate) version_id: String,
    #[serde(default)]
    pub(crate) max_depth: Option<usize>,
    #[serde(default)]
    pub(crate) max_nodes: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Materialise {
    pub(crate) version_id: String,
    #[serde(default)]
    pub(crate) filename: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Document {
    ReadTodos,
    WriteTodos(WriteTodos),
    ReadPlan,
    UpdatePlan(UpdatePlan),
    Remember(Remember),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WriteTodos {
    pub(crate) todos: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdatePlan {
    pub(crate) step_id: String,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Remember {
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) block: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Background {
    Exec(ExecBackground),
    Peek(Job),
    Interrupt(Job),
    List,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExecBackground {
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Made up by the worker, so that a call that is made again starts nothing again.
    pub(crate) key: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Job {
    pub(crate) id: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// The methods that the daemon serves itself.
pub(crate) const OWN: [&str; 27] = [
    "capabilities",
    "submit_output",
    "bash",
    "bash_start",
    "bash_report",
    "read_file",
    "write_file",
    "edit_file",
    "glob",
    "grep",
    "list_dir",
    "save_artifact",
    "artifacts",
    "artifact_path",
    "view_image",
    "lineage",
    "lineage_graph",
    "materialise_artifact",
    "todo_read",
    "todo_write",
    "plan_read",
    "plan_update",
    "remember",
    "exec_background",
    "exec_peek",
    "exec_interrupt",
    "exec_list",
];

impl Asked {
    /// Reads the arguments of a call; what is missing, unknown, null or of another type is named.
    pub(crate) fn parse(
        method: &str,
        body: &[u8],
        caller: &Caller,
        handlers: &Handlers,
    ) -> Result<Self, HostError> {
        if body.len() > ARGUMENTS_LIMIT {
            let message =
                format!("the arguments are {} bytes long, and {ARGUMENTS_LIMIT} are allowed", body.len());
            return Err(HostError::new(ErrorKind::TooLarge, message));
        }
        let arguments: Map<String, Value> = serde_json::from_slice(body)
            .map_err(|error| HostError::bad(format!("the arguments are not a JSON object: {error}")))?;
        if let Some((field, _)) = arguments.iter().find(|(_, value)| value.is_null()) {
            return Err(HostError::bad(format!("{field} is null; leave it out instead")));
        }
        let arguments = Value::Object(arguments);
        Ok(match method {
            "capabilities" => Self::Capabilities.if_nothing(arguments)?,
            "submit_output" => Self::SubmitOutput(read(arguments)?),
            "bash" => {
                let asked = read(arguments)?;
                // Nobody is asked about what may not be done in any case.
                bash::check(&asked, caller)?;
                Self::AuthorizeBash(asked)
            }
            "bash_start" => Self::ConsumeBash(read(arguments)?),
            "bash_report" => Self::ReportBash(read(arguments)?),
            "read_file" => Self::Files(Files::Read(read(arguments)?)),
            "write_file" => Self::Files(Files::Write(read(arguments)?)),
            "edit_file" => Self::Files(Files::Edit(read(arguments)?)),
            "glob" => Self::Files(Files::Glob(read(arguments)?)),
            "grep" => Self::Files(Files::Grep(read(arguments)?)),
            "list_dir" => Self::Files(Files::List(read(arguments)?)),
            "save_artifact" => Self::SaveArtifact(read(arguments)?),
            "artifacts" => Self::Artifacts(Artifacts::List(read(arguments)?)),
            "artifact_path" => Self::Artifacts(Artifacts::Path(read(arguments)?)),
            "view_image" => Self::Artifacts(Artifacts::View(read(arguments)?)),
            "lineage" => Self::Artifacts(Artifacts::Lineage(read(arguments)?)),
            "lineage_graph" => Self::Artifacts(Artifacts::Graph(read(arguments)?)),
            "materialise_artifact" => Self::Artifacts(Artifacts::Materialise(read(arguments)?)),
            "todo_read" => Self::Document(Document::ReadTodos).if_nothing(arguments)?,
            "todo_write" => Self::Document(Document::WriteTodos(read(arguments)?)),
            "plan_read" => Self::Document(Document::ReadPlan).if_nothing(arguments)?,
            "plan_update" => Self::Document(Document::UpdatePlan(read(arguments)?)),
            "remember" => Self::Document(Document::Remember(read(arguments)?)),
            "exec_background" => Self::Background(Background::Exec(read(arguments)?)),
            "exec_peek" => Self::Background(Background::Peek(read(arguments)?)),
            "exec_interrupt" => Self::Background(Background::Interrupt(read(arguments)?)),
            "exec_list" => Self::Background(Background::List).if_nothing(arguments)?,
            _ => {
                handlers.check(method, &arguments, &caller.session)?;
                Self::Handler { method: method.to_owned(), arguments }
            }
        })
    }

    fn if_nothing(self, arguments: Value) -> Result<Self, HostError> {
        read::<Nothing>(arguments).map(|Nothing {}| self)
    }

    /// What holds of it.
    pub(crate) fn traits(&self) -> Traits {
        let (repeatable, verdict, subject) = match self {
            Self::Capabilities | Self::SubmitOutput(_) => (true, Verdict::Allow, ""),
            Self::AuthorizeBash(asked) => (false, Verdict::Ask, asked.command.as_str()),
            // The command was decided on when it was authorised.
            Self::ConsumeBash(_) | Self::ReportBash(_) => (false, Verdict::Allow, ""),
            Self::Files(files) => match files {
                Files::Read(asked) => (true, Verdict::Allow, asked.path.as_str()),
                Files::Write(asked) => (false, Verdict::Allow, asked.path.as_str()),
                Files::Edit(asked) => (false, Verdict::Allow, asked.path.as_str()),
                Files::Glob(asked) => (true, Verdict::Allow, asked.pattern.as_str()),
                Files::Grep(asked) => (true, Verdict::Allow, asked.pattern.as_str()),
                Files::List(asked) => (true, Verdict::Allow, asked.path.as_deref().unwrap_or_default()),
            },
            Self::SaveArtifact(asked) => {
                let name = asked.path.as_deref().or(asked.filename.as_deref());
                (false, Verdict::Allow, name.unwrap_or_default())
            }
            Self::Artifacts(Artifacts::Materialise(asked)) => {
                (false, Verdict::Allow, asked.version_id.as_str())
            }
            Self::Artifacts(_) => (true, Verdict::Allow, ""),
            Self::Document(Document::ReadTodos | Document::ReadPlan) => (true, Verdict::Allow, ""),
            Self::Document(_) => (false, Verdict::Allow, ""),
            Self::Background(background) => match background {
                // Its key makes the same job of the same call.
                Background::Exec(asked) => (true, Verdict::Ask, asked.code.as_str()),
                Background::Peek(_) | Background::List => (true, Verdict::Allow, ""),
                Background::Interrupt(asked) => (true, Verdict::Allow, asked.id.as_str()),
            },
            Self::Handler { .. } => (false, Verdict::Allow, ""),
        };
        let shown = match self {
            Self::ConsumeBash(shown) => Some(format!("SHA-256 {:.16}", shown.command_sha256)),
            Self::ReportBash(report) => Some(report.status.as_str().to_owned()),
            _ => None,
        };
        Traits { repeatable, verdict, subject: subject.to_owned(), shown }
    }

    /// Whether it changes nothing outside of the log, so that it may be done before it is written down.
    pub(crate) const fn is_quick(&self) -> bool {
        match self {
            Self::Capabilities
            | Self::SubmitOutput(_)
            | Self::AuthorizeBash(_)
            | Self::ConsumeBash(_)
            | Self::ReportBash(_)
            | Self::SaveArtifact(_)
            | Self::Artifacts(_)
            | Self::Document(_) => true,
            Self::Files(files) => !matches!(files, Files::Write(_) | Files::Edit(_)),
            Self::Background(background) => matches!(background, Background::Peek(_) | Background::List),
            Self::Handler { .. } => false,
        }
    }
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, HostError> {
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        HostError::bad(if path == "." { inner.to_string() } else { format!("{path}: {inner}") })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<T: DeserializeOwned + std::fmt::Debug>(json: Value) -> String {
        read::<T>(json).unwrap_err().message
    }

    #[test]
    fn what_is_missing_unknown_or_of_another_type_is_named() {
        use serde_json::json;
        assert!(refusal::<ReadFile>(json!({})).contains("`path`"));
        assert!(refusal::<ReadFile>(json!({"path": "a", "pth": 1})).contains("`pth`"));
        assert!(refusal::<ReadFile>(json!({"path": "a", "limit": "x"})).starts_with("limit: "));
        assert!(refusal::<ReadFile>(json!({"path": "a", "limit": 1.5})).starts_with("limit: "));
    }
}
