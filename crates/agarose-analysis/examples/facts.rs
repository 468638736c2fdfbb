//! Facts of many cells: reads JSON lines `{"lang": "py"|"r", "src": …}`, writes one line of facts each.

use std::io::{BufRead, Write};

use agarose_analysis::{Language, analyse};

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let cell: serde_json::Value = serde_json::from_str(&line?)?;
        let language = if cell["lang"] == "r" { Language::R } else { Language::Python };
        let facts = analyse(language, cell["src"].as_str().unwrap_or(""));
        serde_json::to_writer(&mut out, &facts)?;
        writeln!(out)?;
    }
    out.flush()
}
