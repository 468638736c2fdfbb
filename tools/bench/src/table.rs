//! What was measured, as rows of ratios.

use std::{fmt, time::Duration};

/// Rows of measurements.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

struct Row {
    what: String,
    ours: String,
    peer: String,
    ratio: f64,
    aim: String,
}

impl Table {
    /// A row: ours beside a peer or a limit, the ratio that the aim is about, and the aim.
    pub(crate) fn row(&mut self, what: &str, ours: String, peer: String, ratio: f64, aim: &str) {
        self.rows.push(Row { what: what.to_owned(), ours, peer, ratio, aim: aim.to_owned() });
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        self.rows
            .iter()
            .map(|row| {
                serde_json::json!({
                    "what": row.what, "ours": row.ours, "peer": row.peer, "ratio": row.ratio, "aim": row.aim,
                })
            })
            .collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | Agarose | beside | ratio | aim |\n|---|---|---|---|---|")?;
        for row in &self.rows {
            writeln!(f, "| {} | {} | {} | {:.2} | {} |", row.what, row.ours, row.peer, row.ratio, row.aim)?;
        }
        Ok(())
    }
}

/// Sorted durations.
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    pub(crate) fn new(mut durations: Vec<Duration>) -> Self {
        durations.sort();
        Self(durations)
    }

    /// The value below which `percent` of them lie.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let index = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0.get(index).copied().unwrap_or_default()
    }
}

/// Milliseconds, readable.
pub(crate) fn ms(duration: Duration) -> String {
    format!("{:.3} ms", duration.as_secs_f64() * 1e3)
}

pub(crate) fn over(numerator: Duration, denominator: Duration) -> f64 {
    numerator.as_secs_f64() / denominator.as_secs_f64().max(1e-9)
}
