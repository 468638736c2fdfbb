//! Artifacts: content that never changes, in versions, each of which knows where it came from.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs, io,
    sync::{Mutex, PoisonError},
};

use agarose_core::{
    BlobRef, Event, SessionId, TicketId,
    host_call::{Artifact, HostFact},
};
use agarose_journal::Reader;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Caller, Host,
    call::{Done, attach},
    error::{ErrorKind, HostError},
    files::Workspace,
    method::{Artifacts, Graph, ListArtifacts, SaveArtifact},
};
use crate::{clock::fresh_ticket, view::rfc3339};

/// How far a graph goes when nobody says, and at most.
const DEPTH: (usize, usize) = (8, 32);
/// How many versions a graph has when nobody says, and at most.
const NODES: (usize, usize) = (100, 500);
/// The largest content that a cell hands over as bytes.
const BYTES_LIMIT: usize = 10 << 20;
/// The largest image that is shown.
const IMAGE_LIMIT: u64 = 4 << 20;

/// A version of an artifact, for people and programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArtifactView {
    /// Its name for ever.
    pub version_id: String,
    /// What it is called.
    pub name: String,
    /// The how-manieth version of that name in its session.
    pub version: u64,
    /// Whose.
    pub session: String,
    /// The cell that saved it.
    pub ticket: String,
    /// Its media type.
    pub content_type: String,
    /// Its length, in bytes.
    pub size: u64,
    /// Digest of its content.
    pub blake3: String,
    /// When it was saved.
    pub saved_at: String,
    /// The versions that it was made from.
    pub inputs: Vec<String>,
    /// The version of another session that it was brought in from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Where it was retrieved from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Value>,
}

/// Where a version came from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineageView {
    /// The version.
    pub version_id: String,
    /// It and what it came from.
    pub nodes: Vec<ArtifactView>,
    /// From what was made to what it was made of.
    pub edges: Vec<(String, String)>,
    /// Whether there is more than is given.
    pub truncated: bool,
}

#[derive(Clone)]
struct Known {
    artifact: Artifact,
    session: SessionId,
    ticket: TicketId,
    wall: u64,
    number: u64,
}

#[derive(Default)]
struct Read {
    through: u64,
    versions: BTreeMap<TicketId, Known>,
    order: Vec<TicketId>,
    numbers: BTreeMap<(SessionId, String), u64>,
}

/// Every artifact of the log, read once and then as it grows.
#[derive(Default)]
pub(crate) struct Index(Mutex<Read>);

/// The kind of the event that saves an artifact.
const SAVED: u16 = 101;

impl Index {
    fn with<T>(&self, reader: &Reader, act: impl FnOnce(&Read) -> T) -> Result<T, String> {
        let mut read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = read.through.saturating_add(1);
        for entry in reader.events(from..) {
            let entry = entry.map_err(|error| error.to_string())?;
            read.through = entry.sequence;
            if entry.event.kind != SAVED {
                continue;
            }
            let event = entry.event.decode().map_err(|error| error.to_string())?;
            let Event::ArtifactSaved { session, lease, artifact } = event else { continue };
            let name = (session.clone(), artifact.name.clone());
            let number = read.numbers.entry(name).or_default();
            *number += 1;
            let number = *number;
            let wall = entry.event.stamp.wall;
            let version = artifact.version;
            let known = Known { artifact: *artifact, session, ticket: lease.ticket, wall, number };
            read.versions.insert(version, known);
            read.order.push(version);
        }
        Ok(act(&read))
    }

    pub(crate) fn all(&self, reader: &Reader) -> Result<Vec<ArtifactView>, String> {
        self.with(reader, |read| {
            read.order
                .iter()
                .filter_map(|id| read.versions.get(id))
                .map(|known| view(reader, known))
                .collect()
        })
    }

    pub(crate) fn lineage(
        &self,
        reader: &Reader,
        version: &str,
        (depth, nodes): (usize, usize),
    ) -> Result<Option<LineageView>, String> {
        let Ok(root) = version.parse::<TicketId>() else { return Ok(None) };
        self.with(reader, |read| {
            read.versions.get(&root)?;
            let (mut seen, mut found, mut edges) = (BTreeSet::from([root]), Vec::new(), Vec::new());
            let mut queue = VecDeque::from([(root, 0usize)]);
            let mut truncated = false;
            while let Some((id, level)) = queue.pop_front() {
                let Some(known) = read.versions.get(&id) else { continue };
                found.push(view(reader, known));
                for from in known.artifact.inputs.iter().chain(&known.artifact.origin) {
                    if level >= depth || (!seen.contains(from) && seen.len() >= nodes) {
                        truncated = true;
                        continue;
                    }
                    edges.push((id.to_string(), from.to_string()));
                    if seen.insert(*from) {
                        queue.push_back((*from, level + 1));
                    }
                }
            }
            Some(LineageView { version_id: root.to_string(), nodes: found, edges, truncated })
        })
    }

    fn get(&self, reader: &Reader, version: &str) -> Result<Option<Known>, String> {
        let Ok(id) = version.parse::<TicketId>() else { return Ok(None) };
        self.with(reader, |read| read.versions.get(&id).cloned())
    }
}

fn view(reader: &Reader, known: &Known) -> ArtifactView {
    let artifact = &known.artifact;
    let source = artifact.source.and_then(|blob| reader.blob(&blob).ok().flatten());
    ArtifactView {
        version_id: artifact.version.to_string(),
        name: artifact.name.clone(),
        version: known.number,
        session: known.session.to_string(),
        ticket: known.ticket.to_string(),
        content_type: artifact.media_type.clone(),
        size: artifact.content.length,
        blake3: artifact.content.hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        saved_at: rfc3339(known.wall),
        inputs: artifact.inputs.iter().map(ToString::to_string).collect(),
        origin: artifact.origin.map(|origin| origin.to_string()),
        source: source.and_then(|bytes| serde_json::from_slice(&bytes).ok()),
    }
}

impl Host {
    /// Keeps a copy of a file, or of bytes, as a version that never changes.
    pub(super) fn save_artifact(&self, asked: &SaveArtifact, caller: &Caller) -> Result<Done, HostError> {
        let mut done = Done::default();
        let (content, named) = match (&asked.path, &asked.content) {
            (Some(path), None) => {
                let (mut file, _) = Workspace::open(&caller.workspace)?.file(path)?;
                let stored = self.0.reader.blobs().store_from(&mut file);
                let name = path.rsplit('/').next().unwrap_or(path).to_owned();
                (stored.map_err(|error| HostError::new(ErrorKind::Io, error.to_string()))?, Some(name))
            }
            (None, Some(content)) => {
                let bytes = STANDARD
                    .decode(&content.base64)
                    .map_err(|error| HostError::bad(format!("content: it is not Base64: {error}")))?;
                if bytes.len() > BYTES_LIMIT {
                    let message = format!("content: it is {} bytes long; save it as a file", bytes.len());
                    return Err(HostError::new(ErrorKind::TooLarge, message));
                }
                let stored = self.0.reader.blobs().store(&bytes);
                (stored.map_err(|error| HostError::new(ErrorKind::Io, error.to_string()))?, None)
            }
            _ => return Err(HostError::bad("either path or content is wanted, and not both")),
        };
        let name = asked.filename.clone().or(named).unwrap_or_default();
        if name.trim().is_empty() || name.contains(['/', '\0']) || name.len() > 255 {
            return Err(HostError::bad("filename: a name without / and of at most 255 bytes is wanted"));
        }
        let mut inputs = Vec::new();
        for input in &asked.input_version_ids {
            inputs.push(self.version(input, caller)?.artifact.version);
        }
        let source = match &asked.source {
            None => None,
            Some(source) => Some(attach(source.to_string().into_bytes(), &mut done)?),
        };
        let media_type = asked.content_type.clone().unwrap_or_else(|| media_type(&name).to_owned());
        let version = fresh_ticket();
        let artifact = Artifact { version, name, content, media_type, inputs, origin: None, source };
        done.value = saved(&artifact);
        done.facts.push(HostFact::Artifact(Box::new(artifact)));
        Ok(done)
    }

    /// A version that this session may know; another is not told from one that never was.
    fn version(&self, id: &str, caller: &Caller) -> Result<Known, HostError> {
        let known = self.0.artifacts.get(&self.0.reader, id).map_err(internal)?;
        known
            .filter(|known| known.session == caller.session)
            .ok_or_else(|| HostError::new(ErrorKind::NotFound, format!("there is no version {id}")))
    }

    pub(super) fn serve_artifacts(&self, asked: &Artifacts, caller: &Caller) -> Result<Done, HostError> {
        match asked {
            Artifacts::List(asked) => self.list_artifacts(asked, caller),
            Artifacts::Path(asked) => {
                let known = self.version(&asked.version_id, caller)?;
                Ok(Done::value(json!({"path": self.path_of(&known)?})))
            }
            Artifacts::View(asked) => {
                let (name, bytes) = match (&asked.version_id, &asked.path) {
                    (Some(id), None) => {
                        let known = self.version(id, caller)?;
                        within(known.artifact.content.length)?;
                        (known.artifact.media_type.clone(), self.content(&known.artifact.content)?)
                    }
                    (None, Some(path)) => {
                        let (mut file, metadata) = Workspace::open(&caller.workspace)?.file(path)?;
                        within(metadata.len())?;
                        let mut bytes = Vec::new();
                        io::Read::read_to_end(&mut file, &mut bytes)?;
                        (media_type(path).to_owned(), bytes)
                    }
                    _ => return Err(HostError::bad("either versionId or path is wanted, and not both")),
                };
                if !name.starts_with("image/") {
                    let message = format!("it is {name}, and no image");
                    return Err(HostError::new(ErrorKind::Invalid, message));
                }
                Ok(Done::value(json!({"contentType": name, "content": {"$bytes": STANDARD.encode(bytes)}})))
            }
            Artifacts::Lineage(asked) => {
                Done::of(&view(&self.0.reader, &self.version(&asked.version_id, caller)?))
            }
            Artifacts::Graph(asked) => self.graph(asked, caller),
            Artifacts::Materialise(asked) => {
                let absent = || {
                    HostError::new(ErrorKind::NotFound, format!("there is no version {}", asked.version_id))
                };
                let known = self.0.artifacts.get(&self.0.reader, &asked.version_id).map_err(internal)?;
                let known = known.ok_or_else(absent)?;
                let artifact = Artifact {
                    version: fresh_ticket(),
                    name: asked.filename.clone().unwrap_or_else(|| known.artifact.name.clone()),
                    content: known.artifact.content,
                    media_type: known.artifact.media_type.clone(),
                    inputs: Vec::new(),
                    origin: Some(known.artifact.version),
                    source: known.artifact.source,
                };
                let mut value = saved(&artifact);
                value["path"] = self.path_of(&Known { artifact: artifact.clone(), ..known })?.into();
                Ok(Done { value, facts: vec![HostFact::Artifact(Box::new(artifact))], ..Done::default() })
            }
        }
    }

    fn list_artifacts(&self, asked: &ListArtifacts, caller: &Caller) -> Result<Done, HostError> {
        let all = self.0.artifacts.all(&self.0.reader).map_err(internal)?;
        let fits = |artifact: &&ArtifactView| {
            artifact.session == caller.session.as_str()
                && asked.name.as_ref().is_none_or(|name| artifact.name.contains(name.as_str()))
                && asked
                    .content_type
                    .as_ref()
                    .is_none_or(|kind| artifact.content_type.starts_with(kind.as_str()))
        };
        let newest: Vec<&ArtifactView> = all.iter().rev().filter(fits).take(asked.limit).collect();
        Done::of(&newest)
    }

    fn graph(&self, asked: &Graph, caller: &Caller) -> Result<Done, HostError> {
        self.version(&asked.version_id, caller)?;
        let limits = (
            asked.max_depth.unwrap_or(DEPTH.0).min(DEPTH.1),
            asked.max_nodes.unwrap_or(NODES.0).clamp(1, NODES.1),
        );
        let graph = self.0.artifacts.lineage(&self.0.reader, &asked.version_id, limits).map_err(internal)?;
        let absent =
            || HostError::new(ErrorKind::NotFound, format!("there is no version {}", asked.version_id));
        Done::of(&graph.ok_or_else(absent)?)
    }

    fn content(&self, blob: &BlobRef) -> Result<Vec<u8>, HostError> {
        let bytes = self.0.reader.blob(blob).map_err(|error| internal(error.to_string()))?;
        bytes.ok_or_else(|| internal("the content is not in the log any more".to_owned()))
    }

    /// A file with the content of a version, for programs that want one; nobody can write to it.
    fn path_of(&self, known: &Known) -> Result<String, HostError> {
        let directory = self.0.data_dir.join("artifacts").join(known.artifact.version.to_string());
        let path = directory.join(&known.artifact.name);
        if !path.exists() {
            fs::create_dir_all(&directory)?;
            let content = self.0.reader.open_blob(&known.artifact.content);
            let mut content = content
                .map_err(|error| internal(error.to_string()))?
                .ok_or_else(|| internal("the content is not in the log any more".to_owned()))?;
            let temporary = directory.join(".part");
            let mut file = fs::File::create(&temporary)?;
            io::copy(&mut content, &mut file)?;
            let mut permissions = file.metadata()?.permissions();
            permissions.set_readonly(true);
            file.set_permissions(permissions)?;
            fs::rename(&temporary, &path)?;
        }
        Ok(path.display().to_string())
    }
}

fn saved(artifact: &Artifact) -> Value {
    json!({
        "versionId": artifact.version.to_string(),
        "name": artifact.name,
        "contentType": artifact.media_type,
        "size": artifact.content.length,
    })
}

fn within(length: u64) -> Result<(), HostError> {
    if length > IMAGE_LIMIT {
        let message = format!("the image is {length} bytes long, and {IMAGE_LIMIT} are shown");
        return Err(HostError::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

fn internal(message: String) -> HostError {
    HostError::new(ErrorKind::Internal, message)
}

/// What the endings of files that analyses make are known as.
fn media_type(name: &str) -> &'static str {
    const TYPES: [(&str, &str); 16] = [
        ("csv", "text/csv"),
        ("gif", "image/gif"),
        ("html", "text/html"),
        ("ipynb", "application/x-ipynb+json"),
        ("jpeg", "image/jpeg"),
        ("jpg", "image/jpeg"),
        ("json", "application/json"),
        ("md", "text/markdown"),
        ("parquet", "application/vnd.apache.parquet"),
        ("pdf", "application/pdf"),
        ("png", "image/png"),
        ("py", "text/x-python"),
        ("r", "text/x-r"),
        ("svg", "image/svg+xml"),
        ("tsv", "text/tab-separated-values"),
        ("txt", "text/plain"),
    ];
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    TYPES.iter().find(|(known, _)| *known == ending).map_or("application/octet-stream", |(_, media)| media)
}
