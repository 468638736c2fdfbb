//! `submit_output`: the only call that marks a task as done, if its cell completes.

use agarose_core::host_call::{HostFact, Submission};
use serde_json::{Value, json};

use super::{
    call::{Done, attach},
    error::{ErrorKind, HostError},
    method::SubmitOutput,
};

/// How many sentences say what was done.
const BULLETS: std::ops::RangeInclusive<usize> = 1..=4;
/// The longest of them, in characters.
const BULLET_LIMIT: usize = 500;
/// The longest output, in bytes.
const OUTPUT_LIMIT: usize = 4 << 20;

/// Checks a submission; one that is not valid leaves the one before where it was.
pub(super) fn submit(asked: &SubmitOutput) -> Result<Done, HostError> {
    let bullets = &asked.completion_bullets;
    if !BULLETS.contains(&bullets.len()) {
        let message = format!("completionBullets: {} were given, and 1 to 4 are wanted", bullets.len());
        return Err(HostError::new(ErrorKind::Invalid, message));
    }
    for (index, bullet) in bullets.iter().enumerate() {
        if let Err(why) = completed_action(bullet) {
            let message = format!("completionBullets[{index}]: {why}: {bullet:?}");
            return Err(HostError::new(ErrorKind::Invalid, message));
        }
    }
    if let Some(schema) = &asked.output_schema {
        check(schema, &asked.output, "output")?;
    }
    let output = serde_json::to_vec(&asked.output)
        .map_err(|error| HostError::new(ErrorKind::Invalid, format!("output: {error}")))?;
    if output.len() > OUTPUT_LIMIT {
        let message = format!("output: it is {} bytes long, and {OUTPUT_LIMIT} are allowed", output.len());
        return Err(HostError::new(ErrorKind::TooLarge, message));
    }
    let mut done = Done::value(json!({"accepted": true}));
    let output = attach(output, &mut done)?;
    done.facts.push(HostFact::Submit(Submission { output, bullets: bullets.clone() }));
    Ok(done)
}

/// Holds a value against a JSON Schema; the error has the path of the first fault.
pub(super) fn check(schema: &Value, value: &Value, name: &str) -> Result<(), HostError> {
    let validator = jsonschema::validator_for(schema).map_err(|error| {
        HostError::new(ErrorKind::Invalid, format!("the schema of {name} is none: {error}"))
    })?;
    match validator.iter_errors(value).next() {
        None => Ok(()),
        Some(fault) => {
            let path = fault.instance_path().to_string();
            Err(HostError::new(ErrorKind::Invalid, format!("{name}{path}: {fault}"))
                .with(json!({"path": path})))
        }
    }
}

/// Whether a sentence says what was done: in English by its first word, elsewhere by having one.
fn completed_action(bullet: &str) -> Result<(), &'static str> {
    let bullet = bullet.trim();
    if bullet.is_empty() {
        return Err("it is empty");
    }
    if bullet.chars().count() > BULLET_LIMIT {
        return Err("it is longer than 500 characters");
    }
    let first = bullet.split(|c: char| !c.is_alphanumeric() && c != '-').find(|word| !word.is_empty());
    let Some(first) = first else { return Err("it has no word") };
    if !first.is_ascii() {
        return Ok(());
    }
    let word = first.to_ascii_lowercase();
    let last = word.rsplit('-').next().unwrap_or(&word);
    if (last.len() > 3 && last.ends_with("ed")) || IRREGULAR.contains(&last) {
        Ok(())
    } else {
        Err("its first word is to say what was done, as in `Fitted the model`")
    }
}

/// Past tenses that do not end in `ed`, of what people and programs do.
const IRREGULAR: [&str; 46] = [
    "began", "bound", "bought", "brought", "broke", "built", "caught", "chose", "cut", "did", "drew",
    "drove", "fed", "found", "froze", "gave", "got", "grew", "held", "hid", "kept", "knew", "laid", "led",
    "left", "made", "met", "paid", "put", "ran", "read", "rebuilt", "reran", "rewrote", "sent", "set",
    "showed", "shown", "split", "spun", "sought", "taught", "took", "went", "won", "wrote",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn submission(bullets: &[&str], schema: Option<Value>) -> Result<Done, HostError> {
        submit(&SubmitOutput {
            output: json!({"rows": 3}),
            completion_bullets: bullets.iter().map(|bullet| (*bullet).to_owned()).collect(),
            output_schema: schema,
        })
    }

    #[test]
    fn a_valid_submission_is_one_fact_and_an_invalid_one_is_none() {
        assert_eq!(submission(&["Fitted the model", "Wrote the report"], None).unwrap().facts.len(), 1);
        assert!(submission(&["モデルを適合させた"], None).is_ok());
        for (bullets, expected) in [
            (&[][..], "0 were given"),
            (&["Did a", "Did b", "Did c", "Did d", "Did e"][..], "5 were given"),
            (&["Fit the model"][..], "completionBullets[0]"),
            (&["Fitted it", "  "][..], "completionBullets[1]"),
        ] {
            let error = submission(bullets, None).err().unwrap();
            assert!(error.message.contains(expected), "{}", error.message);
        }
    }

    #[test]
    fn a_schema_names_the_path_of_the_fault() {
        let schema = json!({"type": "object", "properties": {"rows": {"type": "string"}}});
        let error = submission(&["Counted rows"], Some(schema)).err().unwrap();
        assert!(error.message.starts_with("output/rows: "), "{}", error.message);
        assert!(submission(&["Counted rows"], Some(json!({"required": ["rows"]}))).is_ok());
        assert!(submission(&["Counted rows"], Some(json!({"type": 7}))).is_err());
    }
}
