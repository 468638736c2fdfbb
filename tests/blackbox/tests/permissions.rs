//! Questions to somebody outside, and the clocks of the cells that wait for them.

use agarose_blackbox::{Lab, eventually};
use serde_json::{Value, json};

/// A cell that says `on`, says `late` when its whole budget has passed by the clock, and goes on for ever.
const LATE: &str = "import time
begun = time.monotonic()
print('on', flush=True)
while time.monotonic() - begun < 1.5: time.sleep(0.01)
print('late', flush=True)
while True: time.sleep(0.01)";
const BUDGET: [&str; 2] = ["--timeout", "1s"];

/// Asks, and returns the question's id.
fn ask(lab: &Lab, ticket: &str, more: &Value) -> String {
    let mut question =
        json!({ "session": "s", "ticket": ticket, "method": "bash", "detail": "rm -r results" });
    question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (status, answer) = lab.post("/v1/permissions", &question);
    assert_eq!(status, 200, "{answer}");
    answer["id"].as_str().unwrap().to_owned()
}

fn pending(lab: &Lab) -> Vec<Value> {
    lab.run(["pending", "--json"]).ok().json().as_array().unwrap().clone()
}

#[test]
fn the_budget_of_a_cell_stands_still_until_every_question_about_it_is_decided() {
    let lab = Lab::started();
    let ticket = lab.submit_with("s", LATE, &BUDGET);
    lab.until_printed(&ticket, "on");
    let (first, second) = (ask(&lab, &ticket, &json!({})), ask(&lab, &ticket, &json!({})));
    let waiting = pending(&lab);
    assert_eq!(waiting.len(), 2);
    assert_eq!((&waiting[0]["id"], &waiting[0]["method"]), (&json!(first), &json!("bash")));
    assert_eq!((&waiting[0]["ticket"], &waiting[0]["detail"]), (&json!(ticket), &json!("rm -r results")));
    lab.run(["approve", &first]).ok();
    // One that is decided is not enough: the cell outlives its budget by the clock.
    lab.until_printed(&ticket, "late");
    assert_eq!(lab.show(&ticket)["state"], "running");
    lab.run(["deny", &second]).ok();
    let ended = lab.wait(&ticket);
    assert_eq!(ended["error"]["kind"], "timeout", "{ended:#}");
    assert_eq!(pending(&lab), [] as [Value; 0]);
    let decided: Vec<bool> = lab
        .events()
        .iter()
        .filter(|event| event["kind"] == "PermissionDecided")
        .map(|event| event["data"]["allowed"].as_bool().unwrap())
        .collect();
    assert_eq!(decided, [true, false]);
}

#[test]
fn a_cancel_does_not_wait_for_an_answer_and_the_question_goes_with_its_cell() {
    let lab = Lab::started();
    let ticket = lab.submit("s", "print('on', flush=True)\nimport time; time.sleep(1e6)");
    lab.until_printed(&ticket, "on");
    let question = ask(&lab, &ticket, &json!({}));
    lab.run(["cancel", &ticket]).ok();
    assert_eq!(lab.wait(&ticket)["state"], "interrupted");
    assert_eq!(pending(&lab), [] as [Value; 0]);
    let late = lab.run(["approve", &question]);
    assert_eq!(late.code, 4, "{late:?}");
}

#[test]
fn a_question_that_nobody_answers_in_its_time_is_gone_and_the_budget_goes_on() {
    let lab = Lab::started();
    let ticket = lab.submit_with("s", LATE, &BUDGET);
    lab.until_printed(&ticket, "on");
    let question = ask(&lab, &ticket, &json!({ "expires_ms": 50 }));
    assert_eq!(lab.wait(&ticket)["error"]["kind"], "timeout");
    let expired = eventually("the end of the question", || {
        lab.events().into_iter().find(|event| event["kind"] == "PermissionExpired")
    });
    assert!(expired.to_string().contains(question.trim_start_matches('p')), "{expired}");
}

#[test]
fn a_question_about_nothing_is_refused_with_what_is_wrong() {
    let lab = Lab::started();
    assert_eq!(lab.exec("s", "1")["state"], "completed");
    for (question, status, what) in [
        (json!({ "session": "s", "method": " " }), 400, "method"),
        (json!({ "session": "nobody", "method": "bash" }), 404, "nobody"),
        (json!({ "session": "s", "method": "bash", "ticket": "01m8y0564pmkvv7r4rp8eyebfz" }), 404, "ticket"),
        (json!({ "session": "s", "method": "bash", "more": 1 }), 400, "more"),
    ] {
        let (code, answer) = lab.post("/v1/permissions", &question);
        assert_eq!(code, status, "{answer}");
        assert!(answer.to_string().contains(what), "{answer}");
    }
    assert_eq!(pending(&lab), [] as [Value; 0]);
}
