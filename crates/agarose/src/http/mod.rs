//! The daemon's side of the socket: requests in, calls of the engine, JSON out.
//!
//! A handler parses, calls the engine once, and says what came of it. It decides nothing.

mod events;
mod handlers;
mod listen;
mod output;

use std::time::Duration;

use agarose_analysis::stale::Policy;
use agarose_core::{
    Language, Millis, Owner, PermissionId, SessionId, TicketId, command::Reach, world::CancelAnswer,
};
use agarose_engine::{
    Asked, Engine, OutputChunk, RequestError, SubmitRequest, Submitted, Waited, observe::Until,
    restore::RestoreRequest,
};
use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, Query, State, rejection::QueryRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::mpsc;

pub(crate) use listen::Listener;

use crate::api;

/// How large a request may be, in bytes.
const BODY_LIMIT: usize = 256 << 20;

/// The most output that one answer carries, in bytes.
const OUTPUT_LIMIT: u64 = 16 << 20;

/// The most output that one answer carries where nobody says, in bytes.
const OUTPUT_USUAL: u64 = 1 << 20;

/// What the handlers work with.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) engine: Engine,
    /// Takes the requests to stop: whether kernels are stopped too.
    pub(crate) stop: mpsc::Sender<bool>,
}

/// The routes.
pub(crate) fn router(served: Served) -> Router {
    Router::new()
        .route("/v1/tickets", post(submit))
        .route("/v1/tickets/{ticket}", get(show))
        .route("/v1/tickets/{ticket}/wait", get(wait))
        .route("/v1/tickets/{ticket}/output", get(read_output))
        .route("/v1/tickets/{ticket}/observe", get(observe))
        .route("/v1/tickets/{ticket}/cancel", post(cancel))
        .route("/v1/tickets/{ticket}/retry", post(retry))
        .route("/v1/sessions", get(sessions))
        .route("/v1/sessions/{session}", get(session))
        .route("/v1/sessions/{session}/close", post(close))
        .route("/v1/sessions/{session}/stale", get(stale))
        .route("/v1/sessions/{session}/what-if", post(what_if))
        .route("/v1/sessions/{session}/restore", post(restore))
        .route("/v1/sessions/{session}/restore/cancel", post(cancel_restore))
        .route("/v1/pause", post(pause))
        .route("/v1/resume", post(resume))
        .route("/v1/permissions", get(permissions).post(propose))
        .route("/v1/permissions/{permission}", post(decide))
        .route("/v1/artifacts", get(artifacts))
        .route("/v1/artifacts/{version}/lineage", get(lineage))
        .route("/v1/handlers", any(handlers::serve))
        .route("/v1/events", get(read_events))
        .route("/v1/status", get(status))
        .route("/v1/shutdown", post(shutdown))
        .fallback(nowhere)
        .method_not_allowed_fallback(nowhere)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(served)
}

/// What went wrong, as a response.
struct Refused(RequestError);

impl From<RequestError> for Refused {
    fn from(error: RequestError) -> Self {
        Self(error)
    }
}

#[derive(Serialize)]
struct ErrorBody {
    error: ErrorFields,
}

#[derive(Serialize)]
struct ErrorFields {
    kind: &'static str,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<String>,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let status = match error.kind() {
            "bad_request" => StatusCode::BAD_REQUEST,
            "not_found" => StatusCode::NOT_FOUND,
            "queue_full" => StatusCode::TOO_MANY_REQUESTS,
            "stopping" | "gone" => StatusCode::SERVICE_UNAVAILABLE,
            "read_only" => StatusCode::INSUFFICIENT_STORAGE,
            "internal" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::CONFLICT,
        };
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(%error, "a request failed");
        }
        let body = ErrorBody {
            error: ErrorFields {
                kind: error.kind(),
                message: error.to_string(),
                hint: error.hint(),
                ticket: ticket_of(&error),
            },
        };
        (status, Json(body)).into_response()
    }
}

/// The ticket that a refusal names.
fn ticket_of(error: &RequestError) -> Option<String> {
    use agarose_core::Refusal;
    let RequestError::Refused(refusal) = error else { return None };
    match refusal {
        Refusal::DuplicateTicket { ticket }
        | Refusal::KeyConflict { ticket, .. }
        | Refusal::NoSuchTicket { ticket }
        | Refusal::Ended { ticket, .. }
        | Refusal::NotOwner { ticket, .. }
        | Refusal::NotRunning { ticket }
        | Refusal::NotQueued { ticket }
        | Refusal::UnknownPredecessor { after: ticket, .. } => Some(ticket.to_string()),
        Refusal::Stopping
        | Refusal::SessionClosed { .. }
        | Refusal::QueueFull { .. }
        | Refusal::NoSuchSession { .. }
        | Refusal::NoSuchPermission { .. }
        | Refusal::RestoreUnderWay { .. }
        | Refusal::NoRestore { .. }
        | Refusal::RestoreOvertaken { .. }
        | Refusal::RestoreNotReady { .. } => None,
    }
}

/// A value as JSON.
struct Json<T>(T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => {
                tracing::error!(%error, "an answer cannot be written as JSON");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

type Answer<T> = Result<Json<T>, Refused>;

fn bad(field: &str, message: impl ToString) -> Refused {
    Refused(RequestError::BadRequest { field: field.to_owned(), message: message.to_string() })
}

fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(bytes).map_err(|error| bad("body", error))
}

/// A field that parses, or a refusal that names it.
fn field<T>(name: &str, text: &str) -> Result<T, Refused>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error| bad(name, error))
}

fn session_id(text: &str) -> Result<SessionId, Refused> {
    SessionId::new(text).map_err(|error| bad("session", error))
}

/// A ticket in a path: whatever is no ticket id is not there.
fn ticket_id(text: &str) -> Result<TicketId, Refused> {
    text.parse()
        .map_err(|error| Refused(RequestError::NotFound { what: format!("ticket like that: {error}") }))
}

fn submitted(submitted: Submitted) -> api::SubmittedBody {
    api::SubmittedBody {
        ticket: submitted.ticket.to_string(),
        state: submitted.state,
        position: submitted.position.unwrap_or(0),
        repeated: submitted.repeated,
    }
}

async fn submit(State(served): State<Served>, bytes: Bytes) -> Answer<api::SubmittedBody> {
    let request: api::SubmitBody = body(&bytes)?;
    drop(bytes);
    let submitted_now = served.engine.submit(submit_request(request)?).await?;
    Ok(Json(submitted(submitted_now)))
}

fn submit_request(request: api::SubmitBody) -> Result<SubmitRequest, Refused> {
    let language =
        request.language.as_deref().map_or(Ok(Language::Python), |text| field("language", text))?;
    let asked = Asked::Cell { code: request.code.into_bytes(), name: request.name };
    let mut submit =
        SubmitRequest::new(session_id(&request.session)?, owner(&request.owner)?, language, asked);
    submit.key = request.key;
    submit.after = request.after.as_deref().map(|text| field("after", text)).transpose()?;
    submit.timeout = request.timeout_ms.map(Millis);
    submit.wait_timeout = request.wait_timeout_ms.map(Millis);
    submit.idle_timeout = request.idle_timeout_ms.map(Millis);
    submit.interrupt_grace = request.interrupt_grace_ms.map(Millis);
    submit.kill_grace = request.kill_grace_ms.map(Millis);
    submit.branch = request.branch;
    submit.resource_keys = request.resource_keys;
    submit.workspace = request.workspace.map(Into::into);
    submit.metadata = request.metadata;
    Ok(submit)
}

fn owner(text: &str) -> Result<Owner, Refused> {
    field("owner", text)
}

async fn show(State(served): State<Served>, Path(ticket): Path<String>) -> Result<Response, Refused> {
    Ok(Json(served.engine.show(ticket_id(&ticket)?).await?).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitQuery {
    timeout_ms: Option<u64>,
}

fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Refused> {
    query.map(|Query(query)| query).map_err(|error| bad("query", error.body_text()))
}

async fn wait(
    State(served): State<Served>,
    Path(ticket): Path<String>,
    asked: Result<Query<WaitQuery>, QueryRejection>,
) -> Result<Response, Refused> {
    let patience = query(asked)?.timeout_ms.map(Duration::from_millis);
    let view = match served.engine.wait(ticket_id(&ticket)?, patience).await? {
        Waited::Ended(view) | Waited::StillOpen(view) => view,
    };
    Ok(Json(view).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputQuery {
    #[serde(default)]
    from: u64,
    max: Option<u64>,
    wait_ms: Option<u64>,
}

async fn read_output(
    State(served): State<Served>,
    Path(ticket): Path<String>,
    asked: Result<Query<OutputQuery>, QueryRejection>,
) -> Answer<api::OutputBody> {
    let asked = query(asked)?;
    let max = asked.max.unwrap_or(OUTPUT_USUAL).clamp(1, OUTPUT_LIMIT);
    let wait = asked.wait_ms.filter(|wait| *wait > 0).map(Duration::from_millis);
    let chunk = served.engine.output(ticket_id(&ticket)?, asked.from, max, wait).await?;
    Ok(Json(output::body(chunk)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ObserveQuery {
    until: Until,
    yield_after_ms: Option<u64>,
    from: Option<u64>,
}

async fn observe(
    State(served): State<Served>,
    Path(ticket): Path<String>,
    asked: Result<Query<ObserveQuery>, QueryRejection>,
) -> Answer<api::ObservedBody> {
    let asked = query(asked)?;
    let ticket = ticket_id(&ticket)?;
    let patience = asked.yield_after_ms.map(Duration::from_millis);
    let observed = served.engine.observe(ticket, asked.until, patience, asked.from).await?;
    let chunk =
        OutputChunk { runs: observed.output, next: observed.next, dropped: observed.dropped, ended: false };
    let output = output::body(chunk);
    Ok(Json(api::ObservedBody {
        ticket: ticket.to_string(),
        running: matches!(observed.state.as_str(), "queued" | "running"),
        state: observed.state,
        outstanding: observed.outstanding,
        output: output.runs,
        dropped: output.dropped,
        next: output.next,
    }))
}

async fn artifacts(State(served): State<Served>) -> Result<Response, Refused> {
    Ok(Json(served.engine.artifacts()?).into_response())
}

async fn lineage(State(served): State<Served>, Path(version): Path<String>) -> Result<Response, Refused> {
    Ok(Json(served.engine.lineage(&version)?).into_response())
}

async fn cancel(
    State(served): State<Served>,
    Path(ticket): Path<String>,
    bytes: Bytes,
) -> Answer<serde_json::Value> {
    let request: api::CancelBody = body(&bytes)?;
    let reach = match request.reach.as_deref() {
        None | Some("full") => Reach::Full,
        Some("queued") => Reach::Queued,
        Some("interrupt") => Reach::Interrupt,
        Some(other) => return Err(bad("reach", format!("{other:?} is not full, queued or interrupt"))),
    };
    let ticket = ticket_id(&ticket)?;
    let reason = request.reason.unwrap_or_default();
    let answer = served.engine.cancel(ticket, owner(&request.owner)?, reason, reach).await?;
    let mut told = json!({ "ticket": ticket.to_string(), "found": found(&answer) });
    if let (CancelAnswer::AlreadyRequested { reason }, Some(told)) = (&answer, told.as_object_mut()) {
        told.insert("reason".into(), reason.as_str().into());
    }
    Ok(Json(told))
}

/// What a cancellation found, for programs.
const fn found(answer: &CancelAnswer) -> &'static str {
    match answer {
        CancelAnswer::Dequeued => "dequeued",
        CancelAnswer::StoppedBeforeStart => "stopped_before_start",
        CancelAnswer::Interrupting => "interrupting",
        CancelAnswer::AlreadyRequested { .. } => "already_requested",
        CancelAnswer::CannotStop => "cannot_stop",
    }
}

async fn retry(
    State(served): State<Served>,
    Path(ticket): Path<String>,
    bytes: Bytes,
) -> Answer<api::SubmittedBody> {
    let request: api::RetryBody = if bytes.is_empty() { api::RetryBody::default() } else { body(&bytes)? };
    let owner = request.owner.as_deref().map(owner).transpose()?;
    let again = served.engine.retry(ticket_id(&ticket)?, owner).await?;
    Ok(Json(submitted(again)))
}

async fn sessions(State(served): State<Served>) -> Result<Response, Refused> {
    Ok(Json(served.engine.sessions().await?).into_response())
}

async fn session(State(served): State<Served>, Path(session): Path<String>) -> Result<Response, Refused> {
    Ok(Json(served.engine.session(session_id(&session)?).await?).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StaleQuery {
    #[serde(default = "document_order")]
    policy: Policy,
}

const fn document_order() -> Policy {
    Policy::DocumentOrder
}

async fn stale(
    State(served): State<Served>,
    Path(session): Path<String>,
    asked: Result<Query<StaleQuery>, QueryRejection>,
) -> Result<Response, Refused> {
    let policy = query(asked)?.policy;
    Ok(Json(served.engine.stale(session_id(&session)?, policy).await?).into_response())
}

async fn what_if(
    State(served): State<Served>,
    Path(session): Path<String>,
    bytes: Bytes,
) -> Result<Response, Refused> {
    let request: api::WhatIfBody = body(&bytes)?;
    let found = served.engine.what_if(session_id(&session)?, request.cell, request.code).await?;
    Ok(Json(found).into_response())
}

async fn restore(
    State(served): State<Served>,
    Path(session): Path<String>,
    bytes: Bytes,
) -> Result<Response, Refused> {
    let request: api::RestoreBody = body(&bytes)?;
    let language = request.language.as_deref().map(|text| field("language", text)).transpose()?;
    let request = RestoreRequest { language, names: request.names, dry_run: request.dry_run };
    Ok(Json(served.engine.restore(session_id(&session)?, request).await?).into_response())
}

async fn cancel_restore(
    State(served): State<Served>,
    Path(session): Path<String>,
    bytes: Bytes,
) -> Answer<serde_json::Value> {
    let request: api::RestoreCancelBody = body(&bytes)?;
    served.engine.cancel_restore(session_id(&session)?, owner(&request.owner)?).await?;
    Ok(Json(json!({ "session": session, "stopping": true })))
}

async fn close(
    State(served): State<Served>,
    Path(session): Path<String>,
    bytes: Bytes,
) -> Answer<serde_json::Value> {
    let request: api::CloseBody = body(&bytes)?;
    let name = session_id(&session)?;
    let reason = request.reason.unwrap_or_default();
    served.engine.close_session(name, owner(&request.owner)?, reason, request.remove).await?;
    Ok(Json(json!({ "session": session, "closed": true, "remove": request.remove })))
}

async fn pause(State(served): State<Served>, bytes: Bytes) -> Answer<serde_json::Value> {
    let (session, by) = flow(&bytes)?;
    let told = flow_told(session.as_ref(), true);
    served.engine.pause(session, by).await?;
    Ok(Json(told))
}

async fn resume(State(served): State<Served>, bytes: Bytes) -> Answer<serde_json::Value> {
    let (session, by) = flow(&bytes)?;
    let told = flow_told(session.as_ref(), false);
    served.engine.resume(session, by).await?;
    Ok(Json(told))
}

fn flow(bytes: &[u8]) -> Result<(Option<SessionId>, Owner), Refused> {
    let request: api::FlowBody = body(bytes)?;
    let session = request.session.as_deref().map(session_id).transpose()?;
    if session.is_some() == request.all {
        return Err(bad("session", "name one session, or say all"));
    }
    Ok((session, owner(&request.owner)?))
}

fn flow_told(session: Option<&SessionId>, paused: bool) -> serde_json::Value {
    match session {
        Some(session) => json!({ "session": session.as_str(), "paused": paused }),
        None => json!({ "all": true, "paused": paused }),
    }
}

async fn permissions(State(served): State<Served>) -> Result<Response, Refused> {
    Ok(Json(served.engine.pending().await?).into_response())
}

async fn propose(State(served): State<Served>, bytes: Bytes) -> Answer<serde_json::Value> {
    let request: api::QuestionBody = body(&bytes)?;
    if request.method.trim().is_empty() {
        return Err(bad("method", "say in one word what is asked for"));
    }
    let ticket = request.ticket.as_deref().map(ticket_id).transpose()?;
    let name = session_id(&request.session)?;
    let expires = request.expires_ms.map(Millis);
    let id = served.engine.propose_permission(name, ticket, request.method, request.detail, expires).await?;
    Ok(Json(json!({ "id": id.to_string() })))
}

async fn decide(
    State(served): State<Served>,
    Path(permission): Path<String>,
    bytes: Bytes,
) -> Answer<serde_json::Value> {
    let request: api::DecisionBody = body(&bytes)?;
    let number = permission
        .strip_prefix('p')
        .unwrap_or(&permission)
        .parse()
        .map_err(|_| Refused(RequestError::NotFound { what: format!("question {permission}") }))?;
    served.engine.decide_permission(PermissionId(number), request.allow, owner(&request.owner)?).await?;
    Ok(Json(json!({ "id": PermissionId(number).to_string(), "allowed": request.allow })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    /// The first sequence number that is wanted.
    from: Option<u64>,
    /// Whether to go on with what follows.
    #[serde(default)]
    follow: bool,
}

async fn read_events(
    State(served): State<Served>,
    asked: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, Refused> {
    let asked = query(asked)?;
    let lines = events::lines(&served.engine, asked.from.unwrap_or(1).max(1), asked.follow);
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], axum::body::Body::from_stream(lines))
        .into_response())
}

async fn status(State(served): State<Served>) -> Result<Response, Refused> {
    Ok(Json(served.engine.status().await?).into_response())
}

async fn shutdown(State(served): State<Served>, bytes: Bytes) -> Answer<serde_json::Value> {
    let request: api::ShutdownBody =
        if bytes.is_empty() { api::ShutdownBody::default() } else { body(&bytes)? };
    // A daemon that is on its way out already does what was asked.
    let _ = served.stop.try_send(request.stop_kernels);
    Ok(Json(json!({ "stopping": true, "stop_kernels": request.stop_kernels })))
}

async fn nowhere(method: axum::http::Method, uri: axum::http::Uri) -> Refused {
    Refused(RequestError::NotFound { what: format!("{method} {}", uri.path()) })
}
