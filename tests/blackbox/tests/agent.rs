//! A driver as an agent has it: it serves methods over a WebSocket, runs cells over the API, answers questions, takes
//! the submission, and goes on from the log after it was killed itself.

use std::{os::unix::net::UnixStream, thread};

use agarose_blackbox::{Lab, eventually};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

struct Driver(WebSocket<UnixStream>);

impl Driver {
    fn connect(lab: &Lab) -> Self {
        let stream = UnixStream::connect(lab.data().join("agarose.sock")).unwrap();
        Self(tungstenite::client("ws://agarose/v1/handlers", stream).unwrap().0)
    }

    fn say(&mut self, said: &Value) {
        self.0.send(Message::text(said.to_string())).unwrap();
    }

    fn hear(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.0.read().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    fn serving(lab: &Lab, methods: &Value) -> Self {
        let mut driver = Self::connect(lab);
        driver.say(&json!({ "type": "register", "methods": methods }));
        assert_eq!(driver.hear()["type"], "registered");
        driver
    }
}

fn llm() -> Value {
    let schema = json!({ "type": "object", "required": ["request"], "properties": { "request": { "type": "string" } } });
    json!([{ "name": "llm", "schema": schema, "description": "a model" }])
}

fn submit(lab: &Lab, key: &str, code: &str) -> String {
    let body = json!({ "session": "task", "owner": "agent:a", "key": key, "code": code });
    let (status, answer) = lab.post("/v1/tickets", &body);
    assert_eq!(status, 200, "{answer}");
    answer["ticket"].as_str().unwrap().to_owned()
}

fn observe(lab: &Lab, ticket: &str, until: &str) -> Value {
    let (status, body) = lab.get(&format!("/v1/tickets/{ticket}/observe?until={until}"));
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// The events after a position, as a driver that was away reads them.
fn events_after(lab: &Lab, position: u64) -> Vec<Value> {
    let (status, body) = lab.get(&format!("/v1/events?from={}", position + 1));
    assert_eq!(status, 200);
    body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_agent_drives_a_whole_task_and_goes_on_from_the_log_after_it_was_killed() {
    let mut lab = Lab::started();
    let mut driver = Driver::serving(&lab, &llm());
    let ticket = submit(
        &lab,
        "one",
        "print(host.llm('what is six times seven?'))\nprint(host.bash('echo done')['stdout'])",
    );
    // It serves its method...
    let call = driver.hear();
    assert_eq!((&call["type"], &call["method"]), (&json!("call"), &json!("llm")));
    assert_eq!(call["arguments"], json!({ "request": "what is six times seven?" }));
    assert_eq!(call["ticket"], ticket);
    driver.say(&json!({ "type": "answer", "id": call["id"], "value": 42 }));
    // ...sees that the cell waits, and for what...
    let observed = eventually("the question", || {
        let observed = observe(&lab, &ticket, "pending");
        observed["outstanding"][0]["permission"].is_string().then_some(observed)
    });
    assert_eq!(observed["outstanding"][0]["method"], "bash", "{observed:#}");
    let (_, status) = lab.get("/v1/status");
    let position = serde_json::from_str::<Value>(&status).unwrap()["sequence"].as_u64().unwrap();
    // ...and is killed, and the daemon with it.
    drop(driver);
    lab.kill_daemon();
    lab.serve(&[]);
    // What it had submitted is there; the same request is no second ticket.
    assert_eq!(
        submit(
            &lab,
            "one",
            "print(host.llm('what is six times seven?'))\nprint(host.bash('echo done')['stdout'])"
        ),
        ticket
    );
    let question = observed["outstanding"][0]["permission"].as_str().unwrap();
    let (status, answer) =
        lab.post(&format!("/v1/permissions/{question}"), &json!({ "allow": true, "owner": "agent:a" }));
    assert_eq!(status, 200, "{answer}");
    let ended = observe(&lab, &ticket, "end");
    assert_eq!(ended["state"], "completed", "{ended:#}");
    let missed: Vec<String> = events_after(&lab, position)
        .iter()
        .filter(|event| event["ticket"] == ticket)
        .map(|event| event["kind"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        missed.contains(&"HostCallDispatched".to_owned()) && missed.contains(&"TicketEnded".to_owned()),
        "{missed:?}"
    );
    // The task is done when it says so.
    let last = submit(&lab, "two", "host.submit_output({'answer': 42}, ['Computed the answer'])");
    observe(&lab, &last, "end");
    let (_, shown) = lab.get(&format!("/v1/tickets/{last}"));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["submission"]["output"], json!({ "answer": 42 }), "{shown:#}");
}

#[test]
fn arguments_are_held_against_the_schema_of_whoever_serves_the_method() {
    let lab = Lab::started();
    let mut driver = Driver::serving(&lab, &llm());
    let said =
        lab.exec("s", "try: host.llm(request=7)\nexcept host.HostError as e: print(e.kind, e.details)");
    assert_eq!(said["stdout"]["text"], "invalid {'path': '/request'}\n", "{said:#}");
    // It is listed, and an error of its own is the cell's to catch.
    let serving = thread::spawn(move || {
        let call = driver.hear();
        let details = json!({ "code": 3 });
        driver.say(&json!({ "type": "error", "id": call["id"], "message": "no credit", "details": details }));
        driver
    });
    let code = "print([o['name'] for o in host.capabilities()['handlers']])
try: host.llm('x')
except host.HostError as e: print(e.kind, e.details, e)";
    let said = lab.exec("s", code);
    assert_eq!(said["stdout"]["text"], "['llm']\nhandler {'code': 3} host.llm: no credit\n", "{said:#}");
    drop(serving.join().unwrap());
    eventually("its leaving", || {
        let said = lab.exec("s", "try: host.llm('x')\nexcept host.HostError as e: print(e.kind)");
        (said["stdout"]["text"] == "unavailable\n").then_some(())
    });
}

#[test]
fn a_driver_that_goes_away_with_a_call_leaves_its_outcome_unknown() {
    let lab = Lab::started();
    let mut driver = Driver::serving(&lab, &llm());
    let ticket = lab.submit("s", "try: host.llm('x')\nexcept host.HostError as e: print(e.kind)");
    assert_eq!(driver.hear()["type"], "call");
    drop(driver);
    assert_eq!(lab.wait(&ticket)["stdout"]["text"], "outcome_unknown\n");
}

#[test]
fn an_interrupted_cell_takes_its_call_back_from_the_driver() {
    let lab = Lab::started();
    let mut driver = Driver::serving(&lab, &llm());
    let ticket = lab.submit("s", "host.llm('x')");
    let call = driver.hear();
    lab.run(["interrupt", &ticket]).ok();
    assert_eq!(driver.hear(), json!({ "type": "cancel", "id": call["id"] }));
    assert_eq!(lab.wait(&ticket)["state"], "interrupted");
    // An answer that comes now is nobody's.
    driver.say(&json!({ "type": "answer", "id": call["id"], "value": 1 }));
    let again = lab.submit("s", "print(host.llm('y'))");
    let call = driver.hear();
    driver.say(&json!({ "type": "answer", "id": call["id"], "value": "fresh" }));
    assert_eq!(lab.wait(&again)["stdout"]["text"], "fresh\n");
}

#[test]
fn a_daemon_killed_while_a_driver_has_a_call_ends_it_as_unknown() {
    let mut lab = Lab::started();
    let mut driver = Driver::serving(&lab, &llm());
    let ticket = lab.submit("s", "try: host.llm('x')\nexcept host.HostError as e: print(e.kind)");
    assert_eq!(driver.hear()["type"], "call");
    lab.kill_daemon();
    drop(driver);
    lab.serve(&[]);
    let shown = lab.wait(&ticket);
    assert_eq!(shown["stdout"]["text"], "outcome_unknown\n", "{shown:#}");
    assert_eq!(shown["host_calls"][0]["outcome"], "outcome_unknown");
}

#[test]
fn what_a_driver_says_that_makes_no_sense_is_refused_and_harms_nobody() {
    let lab = Lab::started();
    let mut driver = Driver::connect(&lab);
    for said in [
        json!({ "type": "dance" }),
        json!({ "type": "register", "methods": [{ "name": "read_file" }] }),
        json!({ "type": "register", "methods": [{ "name": "Not A Name" }] }),
        json!({ "type": "register", "methods": [{ "name": "x", "schema": { "type": 7 } }] }),
    ] {
        driver.say(&said);
        assert_eq!(driver.hear()["type"], "refused", "{said}");
    }
    driver.say(&json!({ "type": "answer", "id": 99, "value": 1 }));
    driver.say(&json!({ "type": "register", "methods": [{ "name": "x" }], "sessions": ["other"] }));
    assert_eq!(driver.hear()["type"], "registered");
    // It serves the sessions that it names, and no other.
    let said = lab.exec("s", "print(hasattr(host, 'x'))");
    assert_eq!(said["stdout"]["text"], "False\n");
}
