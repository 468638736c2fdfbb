//! What is in the spool of a supervisor that is dead.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use super::{
    STREAMS,
    area::{Control, Layout, Phase, read_whole},
    kernel_file, stream_file,
};
use crate::{
    client::RecoveredExecution,
    wire::{Run, supervisor::Output, worker::CellResult},
};

/// The executions that were held, in the order in which they began. What does not read is left out.
///
/// # Errors
/// When a file is there and cannot be read at all.
pub(crate) fn recover(dir: &Path) -> io::Result<Vec<RecoveredExecution>> {
    let mut found = Vec::new();
    for number in 0..STREAMS {
        if let Some((file, control, layout)) = open(&stream_file(dir, number))?
            && let Some(id) = control.id()
        {
            let (runs, bytes) = read_whole(&control, &layout, &file);
            let result: Option<CellResult> = (control.phase() == Phase::Ended)
                .then(|| control.result(&layout, &file))
                .flatten()
                .and_then(|json| serde_json::from_slice(&json).ok());
            let started = matches!(control.phase(), Phase::Started | Phase::Ended);
            let output = Output { runs, ..control.output(&layout) };
            found.push((control.sequence(), RecoveredExecution { id, started, result, output, bytes }));
        }
    }
    found.sort_by_key(|(sequence, _)| *sequence);
    Ok(found.into_iter().map(|(_, execution)| execution).collect())
}

/// The kernel's own output: its runs and their bytes.
///
/// # Errors
/// When the file is there and cannot be read at all.
pub(crate) fn recover_kernel(dir: &Path) -> io::Result<(Vec<Run>, Vec<u8>)> {
    Ok(open(&kernel_file(dir))?
        .map_or_else(Default::default, |(file, control, layout)| read_whole(&control, &layout, &file)))
}

/// A stream as it lies on disk.
type Found = (File, Control<Vec<u8>>, Layout);

fn open(path: &Path) -> io::Result<Option<Found>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // The control part has one length, whatever the bounds are.
    let mut control = vec![0; Layout::of(crate::spec::SpoolBounds::default()).control_length()];
    match file.read_exact_at(&mut control, 0) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let control = Control(control);
    Ok(control.layout().map(|layout| (file, control, layout)))
}
