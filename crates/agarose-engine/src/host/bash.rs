//! A shell command runs in the worker, and only under a one-shot capability for exactly that command.

use std::{path::Path, sync::LazyLock};

use agarose_core::{
    Counters, Unit,
    capability::{BashReport, CapabilityId, Grant},
    host_call::HostFact,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use regex::RegexSet;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    Caller,
    call::{Done, generation},
    error::{ErrorKind, HostError},
    method::{AuthorizeBash, ReportBash, ShownBash},
    secrets,
};
use crate::clock::Clock;

/// How long a command may take to be started once it is allowed, in milliseconds.
const LIFE: u64 = 15_000;
/// The longest command, in bytes.
const COMMAND_LIMIT: usize = 1 << 20;
/// The longest time that a command may ask for, in milliseconds.
const LONGEST: u64 = 7 * 24 * 3_600_000;

/// Commands that nobody means: they destroy the machine, whoever allows them.
static CATASTROPHES: LazyLock<Option<RegexSet>> = LazyLock::new(|| {
    RegexSet::new([
        r#"\brm\s+(?:-[\w-]+\s+)*-\w*[rR]\w*\s+(?:-[\w-]+\s+)*["']?(?:/|~|\$HOME|\$\{HOME\}|/\*)["']?/?\s*(?:$|[;&|])"#,
        r"\bmkfs(?:\.\w+)?\b",
        r"\bdd\b[^;&|]*\bof=/dev/(?:sd|nvme|vd|hd|mmcblk|disk)",
        r">\s*/dev/(?:sd|nvme|vd|hd|mmcblk|disk)",
        r#"\bchmod\s+(?:-[\w-]+\s+)*-\w*R\w*\s+0?777\s+["']?/["']?\s*(?:$|[;&|])"#,
        r":\s*\(\s*\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:",
    ])
    .ok()
});

/// Whether a command may run here at all, whoever allows it; where, and within which root.
pub(super) fn check(asked: &AuthorizeBash, caller: &Caller) -> Result<(String, String), HostError> {
    let command = asked.command.as_str();
    if command.trim().is_empty() || command.contains('\0') || command.len() > COMMAND_LIMIT {
        return Err(HostError::bad("command: it is empty, holds a NUL, or is longer than 1 MiB"));
    }
    if asked.timeout_ms == 0 || asked.timeout_ms > LONGEST {
        return Err(HostError::bad(
            "timeoutMs: a command may run for more than nothing and at most seven days",
        ));
    }
    if asked.challenge.len() < 16 || asked.challenge.len() > 256 {
        return Err(HostError::bad("challenge: it has 16 to 256 characters"));
    }
    if generation(&asked.generation) != Some(caller.lease.generation) {
        let message = format!("generation: {} is not the kernel that asks", asked.generation);
        return Err(HostError::new(ErrorKind::CapabilityMismatch, message));
    }
    let digest: [u8; 32] = Sha256::digest(command.as_bytes()).into();
    if hex(&digest) != asked.command_sha256 {
        let message = "commandSha256: it is not the digest of the command";
        return Err(HostError::new(ErrorKind::CapabilityMismatch, message));
    }
    if CATASTROPHES.as_ref().is_none_or(|patterns| patterns.is_match(command)) {
        let message = "the command would destroy more than a workspace, and no rule allows that";
        return Err(HostError::new(ErrorKind::Denied, message));
    }
    if let Some(name) = secret_in(command) {
        let message = format!("the command names {name}, which looks like a file of secrets");
        return Err(HostError::new(ErrorKind::Secret, message));
    }
    confined(Path::new(&asked.cwd), &caller.workspace)
}

/// Gives a command its capability.
pub(super) fn authorize(asked: &AuthorizeBash, caller: &Caller, clock: &Clock) -> Result<Done, HostError> {
    let (directory, root) = check(asked, caller)?;
    let digest: [u8; 32] = Sha256::digest(asked.command.as_bytes()).into();
    let mut token = [0u8; 32];
    getrandom::fill(&mut token)
        .map_err(|error| HostError::new(ErrorKind::Io, format!("the system gives no randomness: {error}")))?;
    let token = URL_SAFE_NO_PAD.encode(token);
    let issued = clock.mono();
    let grant = Grant {
        capability: id_of(&token),
        command: digest,
        directory: directory.clone(),
        root: root.clone(),
        generation: caller.lease.generation,
        challenge: asked.challenge.clone(),
        issued,
        expires: issued.saturating_add(LIFE),
        detach: asked.detach,
    };
    let value = json!({
        "token": token,
        "commandSha256": asked.command_sha256,
        "cwd": directory,
        "root": root,
        "generation": asked.generation,
        "challenge": asked.challenge,
        "issuedMs": grant.issued,
        "expiresMs": grant.expires,
        "detach": asked.detach,
    });
    Ok(Done { value, facts: vec![HostFact::Grant(Box::new(grant))], ..Done::default() })
}

/// Spends a capability; the loop refuses unless everything is as it was granted.
pub(super) fn consume(shown: &ShownBash) -> Result<Done, HostError> {
    let mismatch = |part: &str| {
        HostError::new(ErrorKind::CapabilityMismatch, format!("the permission was given for another {part}"))
    };
    let grant = Grant {
        capability: id_of(&shown.token),
        command: unhex(&shown.command_sha256).ok_or_else(|| mismatch("command"))?,
        directory: shown.cwd.clone(),
        root: shown.root.clone(),
        generation: generation(&shown.generation).ok_or_else(|| mismatch("generation"))?,
        challenge: shown.challenge.clone(),
        issued: shown.issued_ms,
        expires: shown.expires_ms,
        detach: shown.detach,
    };
    Ok(Done { value: json!({}), facts: vec![HostFact::Consume(Box::new(grant))], ..Done::default() })
}

/// Takes down how a command went; numbers that contradict each other are clamped.
pub(super) fn report(report: &ReportBash) -> Result<Done, HostError> {
    let fact = HostFact::Report {
        capability: id_of(&report.token),
        report: BashReport {
            status: report.status,
            exit_code: report.exit_code,
            wall_ms: report.wall_ms,
            stdout: Counters::new(report.stdout_seen, report.stdout_retained, Unit::Bytes),
            stderr: Counters::new(report.stderr_seen, report.stderr_retained, Unit::Bytes),
            stopped: report.stopped,
        },
    };
    Ok(Done { value: json!({}), facts: vec![fact], ..Done::default() })
}

/// The directory and the root that it lies in, with every link followed.
fn confined(cwd: &Path, workspace: &Path) -> Result<(String, String), HostError> {
    let real = |path: &Path| {
        path.canonicalize().map_err(|error| {
            let message = format!("cwd: {} cannot be used: {error}", path.display());
            HostError::new(ErrorKind::NotFound, message)
        })
    };
    let (directory, root) = (real(&workspace.join(cwd))?, real(workspace)?);
    if !directory.starts_with(&root) {
        let message = format!("cwd: {} is outside of the workspace {}", directory.display(), root.display());
        return Err(HostError::new(ErrorKind::OutOfBounds, message));
    }
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| HostError::bad("cwd: its path is not UTF-8"))
    };
    Ok((text(&directory)?, text(&root)?))
}

/// A word of a command that names a file of secrets, also within `VAR=path` and quotes.
fn secret_in(command: &str) -> Option<String> {
    let words = command.split(|c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | '=' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
    });
    words
        .filter_map(|word| word.rsplit('/').next())
        .find(|name| secrets::is_secret_name(name))
        .map(str::to_owned)
}

fn id_of(token: &str) -> CapabilityId {
    CapabilityId(*blake3::hash(token.as_bytes()).as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_destroy_the_machine_is_refused_and_what_would_not_is_not() {
        let refused = |command: &str| CATASTROPHES.as_ref().unwrap().is_match(command);
        for command in [
            "rm -rf /",
            "rm -fr ~",
            "sudo rm -r -f / ; echo done",
            "rm -rf \"$HOME\"",
            "mkfs.ext4 /dev/sda1",
            "dd if=/dev/zero of=/dev/sda bs=1M",
            "echo x > /dev/sda",
            "chmod -R 777 /",
            ":(){ :|:& };:",
        ] {
            assert!(refused(command), "{command}");
        }
        for command in
            ["rm -rf build", "rm -rf ./", "rm -rf /tmp/x", "dd if=a of=b", "ls > /dev/null", "chmod 777 x"]
        {
            assert!(!refused(command), "{command}");
        }
    }

    #[test]
    fn files_of_secrets_are_found_wherever_a_command_names_them() {
        for command in ["cat .env", "FILE=~/.ssh/id_rsa cat x", "curl -d @'certs/server.pem' u"] {
            assert!(secret_in(command).is_some(), "{command}");
        }
        assert_eq!(secret_in("python train.py --env=prod"), None);
    }

    #[test]
    fn a_directory_outside_or_through_a_link_is_refused() {
        let workspace = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir(workspace.path().join("sub")).unwrap();
        std::os::unix::fs::symlink(outside.path(), workspace.path().join("link")).unwrap();
        assert!(confined(Path::new("sub"), workspace.path()).is_ok());
        for cwd in ["..", "link", "sub/../..", "/"] {
            let refused = confined(Path::new(cwd), workspace.path()).unwrap_err();
            assert_eq!(refused.kind, "out_of_bounds", "{cwd}");
        }
    }
}
