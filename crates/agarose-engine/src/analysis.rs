//! Facts of cells: made when a cell is accepted, recorded beside it, read again from there.
//!
//! The facts go into the log with the ticket, in one record, with the version of the analysis that made
//! them. Facts of another version are not believed: they are made again from the source.

use std::sync::Arc;

use agarose_analysis::{ANALYSER, Facts, analyse};
use agarose_core::{BlobRef, Language, command::Analysis};
use agarose_journal::{Attachment, Reader};

use crate::{error::RequestError, kernels};

/// Sources larger than this are analysed where nobody else waits, in bytes.
const LARGE: usize = 16 * 1024;

/// The analysis of a cell that is about to be accepted; its content goes with the command.
pub(crate) async fn record(
    reader: &Reader,
    language: Language,
    code: &[u8],
    attachments: &mut Vec<Attachment>,
) -> Result<Analysis, RequestError> {
    let internal = |error: &dyn std::error::Error| RequestError::Internal {
        message: format!("the cell cannot be analysed: {error}"),
    };
    let facts = if code.len() > LARGE {
        let code = code.to_vec();
        let made = tokio::task::spawn_blocking(move || of(language, &code)).await;
        made.map_err(|error| internal(&error))?
    } else {
        of(language, code)
    };
    let bytes = serde_json::to_vec(&facts).map_err(|error| internal(&error))?;
    let facts =
        kernels::store(reader, bytes, attachments).await.map_err(|error| RequestError::not_stored(&error))?;
    Ok(Analysis { analyser: ANALYSER.to_owned(), facts })
}

/// The facts of a source; what is not UTF-8 in it is shown replaced, as it is everywhere.
fn of(language: Language, code: &[u8]) -> Facts {
    analyse(analysed_as(language), &String::from_utf8_lossy(code))
}

/// The facts of a cell: the recorded ones, or new ones when there are none of this version.
pub(crate) fn read(
    reader: &Reader,
    language: Language,
    recorded: Option<&(String, BlobRef)>,
    source: &BlobRef,
) -> Option<Arc<Facts>> {
    let current = recorded.filter(|(analyser, _)| analyser == ANALYSER);
    let kept = current.and_then(|(_, blob)| {
        let bytes = reader.blob(blob).ok().flatten()?;
        serde_json::from_slice(&bytes).ok()
    });
    kept.or_else(|| Some(of(language, &reader.blob(source).ok().flatten()?))).map(Arc::new)
}

/// A language by the analysis' name of it.
#[must_use]
pub const fn analysed_as(language: Language) -> agarose_analysis::Language {
    match language {
        Language::Python => agarose_analysis::Language::Python,
        Language::R => agarose_analysis::Language::R,
    }
}
