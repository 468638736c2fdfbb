//! Small documents of a session, versioned in the log: todos, plan, memory.

use agarose_core::{World, host_call::HostFact, session::Document as Stored};
use serde_json::{Map, Value, json};

use super::{
    Caller, Host,
    call::{Done, attach},
    error::{ErrorKind, HostError},
    method::Document,
};

/// The longest document, in bytes.
const LIMIT: usize = 64 << 10;

impl Host {
    pub(super) async fn serve_document(&self, asked: Document, caller: &Caller) -> Result<Done, HostError> {
        match asked {
            Document::ReadTodos => Ok(Done::value(self.read(caller, "todos").await?.unwrap_or(json!([])))),
            Document::ReadPlan => Ok(Done::value(self.read(caller, "plan").await?.unwrap_or(json!({})))),
            Document::WriteTodos(asked) => write("todos", &Value::Array(asked.todos)),
            Document::UpdatePlan(asked) => {
                const STATUSES: [&str; 5] = ["pending", "in_progress", "done", "blocked", "dropped"];
                if !STATUSES.contains(&asked.status.as_str()) {
                    let message = format!("status: {:?} is none of {}", asked.status, STATUSES.join(", "));
                    return Err(HostError::bad(message));
                }
                let mut plan = object(self.read(caller, "plan").await?);
                let mut step = json!({"status": asked.status});
                if let Some(note) = asked.note {
                    step["note"] = note.into();
                }
                plan.insert(asked.step_id, step);
                write("plan", &Value::Object(plan))
            }
            Document::Remember(asked) => {
                let mut memory = object(self.read(caller, "memory").await?);
                let block = asked.block.unwrap_or_else(|| "general".to_owned());
                let lines = memory.entry(block).or_insert_with(|| json!([]));
                if let Some(lines) = lines.as_array_mut() {
                    lines.push(asked.content.into());
                }
                write("memory", &Value::Object(memory))
            }
        }
    }

    /// What a document holds; nothing before it is written.
    async fn read(&self, caller: &Caller, name: &'static str) -> Result<Option<Value>, HostError> {
        let lease = caller.lease;
        let of = move |world: &World| -> Option<Stored> {
            let sessions = world.session_of(lease.ticket);
            sessions.and_then(|session| session.documents.get(name)).cloned()
        };
        let Some(stored) = self.ask_world(of).await? else { return Ok(None) };
        let unreadable =
            |error: String| HostError::new(ErrorKind::Internal, format!("{name} cannot be read: {error}"));
        let bytes = self.0.reader.blob(&stored.content).map_err(|error| unreadable(error.to_string()))?;
        let bytes = bytes.ok_or_else(|| unreadable("it is not in the log any more".to_owned()))?;
        serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(error.to_string()))
    }

    async fn ask_world<T: Send + 'static>(
        &self,
        question: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Result<T, HostError> {
        let engine = self.engine()?;
        engine
            .query(question)
            .await
            .map_err(|error| HostError::new(ErrorKind::Unavailable, error.to_string()))
    }
}

fn object(document: Option<Value>) -> Map<String, Value> {
    match document {
        Some(Value::Object(map)) => map,
        Some(_) | None => Map::new(),
    }
}

fn write(name: &str, document: &Value) -> Result<Done, HostError> {
    let bytes = serde_json::to_vec(document).map_err(|error| HostError::bad(error.to_string()))?;
    if bytes.len() > LIMIT {
        let message = format!("{name} would be {} bytes long, and {LIMIT} are allowed", bytes.len());
        return Err(HostError::new(ErrorKind::TooLarge, message));
    }
    let mut done = Done::value(document.clone());
    let content = attach(bytes, &mut done)?;
    done.facts.push(HostFact::Document { name: name.to_owned(), content });
    Ok(done)
}
