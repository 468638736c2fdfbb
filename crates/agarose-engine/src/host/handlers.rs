//! Methods that belong to the driver of an agent: it connects, names them, and serves them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use agarose_core::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{
    Caller, Host, Stop,
    error::{ErrorKind, HostError},
    method::OWN,
    submission,
};

/// Methods that drivers are known to serve, with what would provide them.
const KNOWN: [(&str, &str); 9] = [
    ("llm", "a language model"),
    ("delegate", "sub-agents"),
    ("children", "sub-agents"),
    ("collect", "sub-agents"),
    ("stop_child", "sub-agents"),
    ("send_message", "sub-agents"),
    ("fold", "protein folding"),
    ("score_mutations", "mutation scoring"),
    ("web_search", "a search engine"),
];

/// A method that a driver offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// What cells call it: `host.NAME(...)`.
    pub name: String,
    /// The JSON Schema of its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// What it does, for people and for `host.capabilities()`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What a driver is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToDriver {
    /// Its methods are served from now on.
    Registered {
        /// Their names.
        methods: Vec<String>,
    },
    /// A cell calls one of them.
    Call {
        /// To be said in the answer.
        id: u64,
        /// Whose cell.
        session: String,
        /// Which cell.
        ticket: String,
        /// Which method.
        method: String,
        /// With what.
        arguments: Value,
    },
    /// Nobody waits for this answer any more.
    Cancel {
        /// Of which call.
        id: u64,
    },
    /// What it said makes no sense.
    Refused {
        /// Why.
        message: String,
    },
}

/// What a driver says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromDriver {
    /// The methods that it serves, for the sessions that it serves them for; all when it names none.
    Register {
        /// The methods.
        methods: Vec<Offer>,
        /// The sessions.
        #[serde(default)]
        sessions: Vec<String>,
    },
    /// A call has a value.
    Answer {
        /// Which.
        id: u64,
        /// The value.
        value: Value,
    },
    /// A call has none.
    Error {
        /// Which.
        id: u64,
        /// Why.
        message: String,
        /// Particulars for the cell.
        #[serde(default)]
        details: Option<Value>,
    },
}

/// A driver's end of its connection.
#[derive(Debug)]
pub struct Driver {
    number: u64,
    /// What it is to be told.
    pub inbox: mpsc::UnboundedReceiver<ToDriver>,
}

struct Connected {
    to: mpsc::UnboundedSender<ToDriver>,
    sessions: Vec<String>,
    methods: BTreeMap<String, Offer>,
}

type Answer = oneshot::Sender<Result<Value, HostError>>;

#[derive(Default)]
struct State {
    drivers: BTreeMap<u64, Connected>,
    /// Calls that a driver has, and which one.
    calls: BTreeMap<u64, (u64, Answer)>,
    next: u64,
}

/// The methods that drivers serve now.
#[derive(Default)]
pub(crate) struct Handlers(Mutex<State>);

impl Handlers {
    fn state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A driver has connected; it serves nothing yet.
    pub(crate) fn connect(&self) -> Driver {
        let (to, inbox) = mpsc::unbounded_channel();
        self.state(|state| {
            state.next += 1;
            let number = state.next;
            state.drivers.insert(number, Connected { to, sessions: Vec::new(), methods: BTreeMap::new() });
            Driver { number, inbox }
        })
    }

    /// A driver has gone; what it had has no answer.
    pub(crate) fn disconnect(&self, driver: &Driver) {
        let orphans = self.state(|state| {
            state.drivers.remove(&driver.number);
            let theirs: Vec<u64> =
                state.calls.iter().filter(|(_, (of, _))| *of == driver.number).map(|(id, _)| *id).collect();
            theirs.into_iter().filter_map(|id| state.calls.remove(&id)).collect::<Vec<_>>()
        });
        for (_, answer) in orphans {
            let gone = "whoever serves the method went away while it had the call";
            let _ = answer.send(Err(HostError::new(ErrorKind::OutcomeUnknown, gone)));
        }
    }

    /// What a driver says.
    pub(crate) fn hear(&self, driver: &Driver, said: FromDriver) {
        match said {
            FromDriver::Register { methods, sessions } => self.register(driver, methods, sessions),
            FromDriver::Answer { id, value } => self.answer(driver, id, Ok(value)),
            FromDriver::Error { id, message, details } => {
                let mut error = HostError::new(ErrorKind::Handler, message);
                error.details = details;
                self.answer(driver, id, Err(error));
            }
        }
    }

    fn register(&self, driver: &Driver, methods: Vec<Offer>, sessions: Vec<String>) {
        let fault = methods.iter().find_map(|offer| {
            let is_name = offer.name.starts_with(|c: char| c.is_ascii_lowercase())
                && offer
                    .name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.'));
            if !is_name {
                return Some(format!("{:?} is no name of a method", offer.name));
            }
            if OWN.contains(&offer.name.as_str()) {
                return Some(format!("{} is served by Agarose itself", offer.name));
            }
            let schema = offer.schema.as_ref()?;
            let fault = jsonschema::validator_for(schema).err()?;
            Some(format!("the schema of {} is none: {fault}", offer.name))
        });
        self.state(|state| {
            let Some(connected) = state.drivers.get_mut(&driver.number) else { return };
            let told = match fault {
                Some(message) => ToDriver::Refused { message },
                None => {
                    connected.sessions = sessions;
                    connected.methods =
                        methods.into_iter().map(|offer| (offer.name.clone(), offer)).collect();
                    ToDriver::Registered { methods: connected.methods.keys().cloned().collect() }
                }
            };
            // One that has gone is disconnected by whoever holds its connection.
            let _ = connected.to.send(told);
        });
    }

    fn answer(&self, driver: &Driver, id: u64, answer: Result<Value, HostError>) {
        let waiting = self.state(|state| match state.calls.get(&id) {
            Some((of, _)) if *of == driver.number => state.calls.remove(&id),
            Some(_) | None => None,
        });
        if let Some((_, tell)) = waiting {
            // The cell may not wait any more.
            let _ = tell.send(answer);
        }
    }

    /// Whether somebody serves a method, with arguments that fit its schema.
    pub(super) fn check(
        &self,
        method: &str,
        arguments: &Value,
        session: &SessionId,
    ) -> Result<(), HostError> {
        let schema = self.state(|state| {
            find(state, method, session).map(|(_, connected)| connected.methods[method].schema.clone())
        });
        match schema {
            Some(Some(schema)) => submission::check(&schema, arguments, method),
            Some(None) => Ok(()),
            None => {
                let by = KNOWN.iter().find(|(name, _)| *name == method).map(|(_, what)| *what);
                let message = match by {
                    Some(what) => format!(
                        "host.{method} is not available: no driver that provides {what} is connected (a driver serves \
                         it over /v1/handlers)"
                    ),
                    None => {
                        format!("there is no host.{method} here: host.capabilities() lists what there is")
                    }
                };
                Err(HostError::new(ErrorKind::Unavailable, message))
            }
        }
    }

    /// Lets a driver serve a call.
    pub(super) async fn call(
        &self,
        method: &str,
        arguments: Value,
        caller: &Caller,
        stop: &Stop,
    ) -> Result<Value, HostError> {
        let (tell, answer) = oneshot::channel();
        let id = self.state(|state| {
            state.next += 1;
            let id = state.next;
            let (number, connected) = find(state, method, &caller.session)?;
            let call = ToDriver::Call {
                id,
                session: caller.session.to_string(),
                ticket: caller.lease.ticket.to_string(),
                method: method.to_owned(),
                arguments,
            };
            connected.to.send(call).ok()?;
            state.calls.insert(id, (number, tell));
            Some(id)
        });
        let Some(id) = id else {
            let message = format!("host.{method} is not available any more: its driver has gone");
            return Err(HostError::new(ErrorKind::Unavailable, message));
        };
        tokio::select! {
            answer = answer => match answer {
                Ok(answer) => answer,
                Err(_) => Err(HostError::new(ErrorKind::OutcomeUnknown, "the driver went away without an answer")),
            },
            () = stop.notified() => {
                self.state(|state| {
                    let Some((number, _)) = state.calls.remove(&id) else { return };
                    if let Some(connected) = state.drivers.get(&number) {
                        let _ = connected.to.send(ToDriver::Cancel { id });
                    }
                });
                Err(HostError::new(ErrorKind::Cancelled, "the cell does not wait for it any more"))
            }
        }
    }

    fn offered(&self, session: &SessionId) -> Vec<Offer> {
        self.state(|state| {
            let serving = state.drivers.values().filter(|connected| serves(connected, session));
            serving.flat_map(|connected| connected.methods.values().cloned()).collect()
        })
    }
}

fn serves(connected: &Connected, session: &SessionId) -> bool {
    connected.sessions.is_empty() || connected.sessions.iter().any(|name| name == session.as_str())
}

/// Whoever serves a method for a session: the one that connected last.
fn find<'a>(state: &'a State, method: &str, session: &SessionId) -> Option<(u64, &'a Connected)> {
    let mut serving = state.drivers.iter().rev();
    serving
        .find(|(_, connected)| serves(connected, session) && connected.methods.contains_key(method))
        .map(|(number, connected)| (*number, connected))
}

impl Host {
    /// What is available to a cell, and why the rest is not.
    pub(super) fn capabilities(&self, caller: &Caller) -> Value {
        let offered = self.handlers().offered(&caller.session);
        let absent = KNOWN.iter().filter(|(name, _)| !offered.iter().any(|offer| offer.name == *name));
        let absent: serde_json::Map<String, Value> = absent
            .map(|(name, what)| {
                ((*name).to_owned(), format!("no driver that provides {what} is connected").into())
            })
            .collect();
        json!({
            "version": 1,
            "methods": OWN,
            "handlers": offered,
            "unavailable": absent,
        })
    }
}
