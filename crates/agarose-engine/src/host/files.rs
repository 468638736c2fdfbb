//! Files of the workspace, and of nothing else: every path is opened beneath its directory, whatever links or
//! races say (openat2 with `RESOLVE_BENEATH`, by way of cap-std).

use std::{
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
    time::{Duration, Instant},
};

use agarose_core::Unit;
use cap_std::{
    ambient_authority,
    fs::{Dir, DirEntry, File, Metadata, OpenOptions},
};
use globset::{Glob as Pattern, GlobMatcher};
use regex::RegexBuilder;
use serde_json::{Value, json};

use super::{
    call::Done,
    error::{ErrorKind, HostError},
    method::{EditFile, Files, Glob, Grep, ListDir, ReadFile, WriteFile},
    secrets,
};

/// The largest file that is read or edited as text, in bytes.
const FILE_LIMIT: u64 = 8 << 20;
/// The most text of one answer, in characters.
const TEXT_LIMIT: usize = 400_000;
/// The most entries that a listing or a search gives.
const ENTRIES: usize = 1_000;
/// The most lines that a search gives.
const HITS: usize = 200;
/// The most files that a search looks into.
const SEARCHED: usize = 5_000;
/// The most entries that a walk looks at, and how long it may take.
const WALKED: usize = 100_000;
const WALK_TIME: Duration = Duration::from_secs(10);

/// Does what was asked, in this workspace.
pub(super) fn serve(asked: &Files, workspace: &Path) -> Result<Done, HostError> {
    let files = Workspace::open(workspace)?;
    match asked {
        Files::Read(asked) => files.read(asked),
        Files::Write(asked) => files.write(asked),
        Files::Edit(asked) => files.edit(asked),
        Files::Glob(asked) => files.glob(asked),
        Files::Grep(asked) => files.grep(asked),
        Files::List(asked) => files.list(asked),
    }
}

/// A workspace that nothing leads out of.
pub(super) struct Workspace {
    root: PathBuf,
    dir: Dir,
}

impl Workspace {
    pub(super) fn open(root: &Path) -> Result<Self, HostError> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())
            .map_err(|error| HostError::from(error).with(json!({"path": root.display().to_string()})))?;
        Ok(Self { root: root.to_path_buf(), dir })
    }

    /// A path within the workspace, as it is written or beneath its absolute name.
    fn inside(&self, path: &str) -> Result<PathBuf, HostError> {
        let outside = || {
            let message = format!("{path} is outside of the workspace");
            HostError::new(ErrorKind::OutOfBounds, message)
        };
        let given = Path::new(path);
        let relative = match given.strip_prefix(&self.root) {
            Ok(relative) => relative,
            Err(_) if given.is_absolute() => return Err(outside()),
            Err(_) => given,
        };
        if relative.components().any(|part| matches!(part, Component::ParentDir)) {
            return Err(outside());
        }
        if relative.as_os_str().to_string_lossy().contains('\0') {
            return Err(HostError::bad("path: it holds a NUL"));
        }
        let is_secret =
            relative.components().any(|part| secrets::is_secret_name(&part.as_os_str().to_string_lossy()));
        if is_secret {
            let message = format!("{path} looks like a file of secrets, which no rule opens");
            return Err(HostError::new(ErrorKind::Secret, message));
        }
        Ok(if relative.as_os_str().is_empty() { PathBuf::from(".") } else { relative.to_path_buf() })
    }

    /// Opens a file to be read. What is no file (a device, a FIFO) is not waited for.
    pub(super) fn file(&self, path: &str) -> Result<(File, Metadata), HostError> {
        let inside = self.inside(path)?;
        let mut options = OpenOptions::new();
        options.read(true);
        {
            use cap_std::fs::OpenOptionsExt;
            // A FIFO without a writer would be waited for without this; files do not heed it.
            options.custom_flags(nonblocking());
        }
        let file = self.dir.open_with(&inside, &options).map_err(|error| refusal(path, error))?;
        let metadata = file.metadata().map_err(|error| refusal(path, error))?;
        if !metadata.is_file() {
            let what = if metadata.is_dir() { "a directory" } else { "not a regular file" };
            return Err(HostError::new(ErrorKind::Invalid, format!("{path} is {what}")));
        }
        // A link within the workspace may lead to a name that is closed.
        if let Ok(real) = self.dir.canonicalize(&inside)
            && real.components().any(|part| secrets::is_secret_name(&part.as_os_str().to_string_lossy()))
        {
            let message = format!("{path} leads to a file of secrets, which no rule opens");
            return Err(HostError::new(ErrorKind::Secret, message));
        }
        Ok((file, metadata))
    }

    fn text(&self, path: &str) -> Result<String, HostError> {
        let (file, metadata) = self.file(path)?;
        let too_large = |bytes: u64| {
            let message = format!("{path} is {bytes} bytes long, and {FILE_LIMIT} are read as text");
            HostError::new(ErrorKind::TooLarge, message)
        };
        if metadata.len() > FILE_LIMIT {
            return Err(too_large(metadata.len()));
        }
        let mut bytes = Vec::new();
        // It may grow while it is read.
        file.take(FILE_LIMIT + 1).read_to_end(&mut bytes).map_err(|error| refusal(path, error))?;
        if bytes.len() as u64 > FILE_LIMIT {
            return Err(too_large(bytes.len() as u64));
        }
        String::from_utf8(bytes)
            .map_err(|_| HostError::new(ErrorKind::Invalid, format!("{path} is not UTF-8 text")))
    }

    fn read(&self, asked: &ReadFile) -> Result<Done, HostError> {
        let text = self.text(&asked.path)?;
        let lines = text.split_inclusive('\n');
        let total = lines.clone().count();
        let first = usize::try_from(asked.offset).unwrap_or(usize::MAX);
        let most = usize::try_from(asked.limit).unwrap_or(usize::MAX);
        let mut content = String::new();
        let (mut taken, mut characters) = (0usize, 0usize);
        for line in lines.skip(first).take(most) {
            let length = line.chars().count();
            if characters.saturating_add(length) > TEXT_LIMIT {
                break;
            }
            content.push_str(line);
            characters += length;
            taken += 1;
        }
        let mut value = json!({"content": content, "firstLine": first, "path": asked.path});
        count(&mut value, "lines", total.saturating_sub(first), taken);
        Ok(Done::value(value))
    }

    fn write(&self, asked: &WriteFile) -> Result<Done, HostError> {
        let inside = self.inside(&asked.path)?;
        if let Some(parent) = inside.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            match self.dir.open_dir(parent) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.dir.create_dir_all(parent),
                opened => opened.map(drop),
            }
            .map_err(|error| refusal(&asked.path, error))?;
        }
        self.replace(&asked.path, &inside, asked.content.as_bytes())?;
        Ok(Done::value(json!({"path": asked.path, "bytes": asked.content.len()})))
    }

    /// Puts a file in the place of another in one step: whoever reads it sees the one or the other whole.
    fn replace(&self, path: &str, inside: &Path, content: &[u8]) -> Result<(), HostError> {
        let existing = self.dir.symlink_metadata(inside).ok();
        if existing.as_ref().is_some_and(|found| !found.is_file()) {
            let message = format!("{path} is there already and is not a regular file");
            return Err(HostError::new(ErrorKind::Invalid, message));
        }
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(|error| {
            HostError::new(ErrorKind::Io, format!("the system gives no randomness: {error}"))
        })?;
        let name = random.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let temporary = inside.with_file_name(format!(".agarose-{name}.tmp"));
        let written = (|| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            let mut file = self.dir.open_with(&temporary, &options)?;
            file.write_all(content)?;
            if let Some(existing) = &existing {
                file.set_permissions(existing.permissions())?;
            }
            file.sync_all()?;
            self.dir.rename(&temporary, &self.dir, inside)
        })();
        written.map_err(|error| {
            // It may never have been made.
            let _ = self.dir.remove_file(&temporary);
            refusal(path, error)
        })
    }

    fn edit(&self, asked: &EditFile) -> Result<Done, HostError> {
        if asked.old.is_empty() {
            return Err(HostError::bad("old: it is empty"));
        }
        let text = self.text(&asked.path)?;
        let found = text.matches(asked.old.as_str()).count();
        if found == 0 || (found > 1 && !asked.replace_all) {
            let message = match found {
                0 => format!("{} does not hold that text", asked.path),
                _ => format!(
                    "{} holds that text {found} times; give more of it, or replace_all=True",
                    asked.path
                ),
            };
            return Err(HostError::new(ErrorKind::Invalid, message).with(json!({"matches": found})));
        }
        let edited = text.replace(asked.old.as_str(), &asked.new);
        let inside = self.inside(&asked.path)?;
        self.replace(&asked.path, &inside, edited.as_bytes())?;
        Ok(Done::value(json!({"path": asked.path, "replaced": found})))
    }

    fn glob(&self, asked: &Glob) -> Result<Done, HostError> {
        let matcher = pattern("pattern", &asked.pattern)?;
        let mut found = Vec::new();
        let walk = self.walk(asked.path.as_deref(), |path, is_file, _| {
            if is_file && matcher.is_match(path) {
                found.push(path.display().to_string());
            }
        })?;
        found.sort_unstable();
        let seen = found.len();
        found.truncate(ENTRIES);
        let mut value = json!({"files": found, "complete": walk});
        count(&mut value, "files", seen, found.len());
        Ok(Done::value(value))
    }

    fn grep(&self, asked: &Grep) -> Result<Done, HostError> {
        let expression = RegexBuilder::new(&asked.pattern)
            .size_limit(1 << 20)
            .build()
            .map_err(|error| HostError::bad(format!("pattern: {error}")))?;
        let include = asked.include.as_deref().map(|text| pattern("include", text)).transpose()?;
        let mut files = Vec::new();
        let mut complete = self.walk(asked.path.as_deref(), |path, is_file, _| {
            let name = path.file_name().map(Path::new);
            let wanted = |include: &GlobMatcher| {
                include.is_match(path) || name.is_some_and(|name| include.is_match(name))
            };
            if is_file && include.as_ref().is_none_or(wanted) {
                files.push(path.to_path_buf());
            }
        })?;
        files.sort_unstable();
        complete &= files.len() <= SEARCHED;
        let (mut hits, mut seen) = (Vec::new(), 0usize);
        for path in files.iter().take(SEARCHED) {
            let name = path.display().to_string();
            // What is not text, too large, or gone meanwhile is not searched.
            let Ok(text) = self.text(&name) else { continue };
            for (number, line) in text.lines().enumerate().filter(|(_, line)| expression.is_match(line)) {
                seen += 1;
                if hits.len() < HITS {
                    let shown: String = line.chars().take(500).collect();
                    hits.push(json!({"path": name, "line": number + 1, "text": shown}));
                }
            }
        }
        let kept = hits.len();
        let mut value = json!({"hits": hits, "complete": complete});
        count(&mut value, "hits", seen, kept);
        Ok(Done::value(value))
    }

    fn list(&self, asked: &ListDir) -> Result<Done, HostError> {
        let path = asked.path.as_deref().unwrap_or(".");
        let inside = self.inside(path)?;
        let mut entries = Vec::new();
        for entry in self.dir.read_dir(&inside).map_err(|error| refusal(path, error))? {
            let entry = entry.map_err(|error| refusal(path, error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !secrets::is_secret_name(&name) {
                entries.push((name, entry));
            }
        }
        entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let seen = entries.len();
        let shown: Vec<Value> =
            entries.iter().take(ENTRIES).map(|(name, entry)| describe(name, entry)).collect();
        let kept = shown.len();
        let mut value = json!({"entries": shown, "path": path});
        count(&mut value, "entries", seen, kept);
        Ok(Done::value(value))
    }

    /// Looks at everything beneath a directory, links not followed; says whether it came to the end.
    fn walk(
        &self,
        path: Option<&str>,
        mut visit: impl FnMut(&Path, bool, &DirEntry),
    ) -> Result<bool, HostError> {
        let start = self.inside(path.unwrap_or("."))?;
        let until = Instant::now() + WALK_TIME;
        let mut looked = 0usize;
        let first = self.dir.open_dir(&start).map_err(|error| refusal(path.unwrap_or("."), error))?;
        let prefix = if start == Path::new(".") { PathBuf::new() } else { start };
        let mut stack = vec![(prefix, first)];
        while let Some((prefix, dir)) = stack.pop() {
            // A directory that goes away meanwhile has nothing.
            let Ok(entries) = dir.entries() else { continue };
            for entry in entries.flatten() {
                looked += 1;
                if looked > WALKED || Instant::now() > until {
                    return Ok(false);
                }
                let name = entry.file_name();
                let Ok(kind) = entry.file_type() else { continue };
                if secrets::is_secret_name(&name.to_string_lossy()) {
                    continue;
                }
                let path = prefix.join(&name);
                visit(&path, kind.is_file(), &entry);
                if kind.is_dir()
                    && let Ok(inner) = entry.open_dir()
                {
                    stack.push((path, inner));
                }
            }
        }
        Ok(true)
    }
}

fn describe(name: &str, entry: &DirEntry) -> Value {
    let kind = entry.file_type().ok();
    let word = match kind {
        Some(kind) if kind.is_dir() => "directory",
        Some(kind) if kind.is_symlink() => "link",
        Some(kind) if kind.is_file() => "file",
        Some(_) | None => "other",
    };
    let mut value = json!({"name": name, "kind": word});
    if word == "file"
        && let Ok(metadata) = entry.metadata()
    {
        value["size"] = metadata.len().into();
    }
    value
}

/// Adds the four numbers of a bounded answer, in the spelling of every other one.
fn count(value: &mut Value, what: &str, seen: usize, kept: usize) {
    let counters = agarose_core::Counters::new(seen as u64, kept as u64, Unit::Items);
    let unit = what;
    value["counters"] = json!({
        "seen": counters.seen(),
        "retained": counters.retained(),
        "dropped": counters.dropped(),
        "truncated": counters.truncated(),
        "unit": unit,
    });
}

fn pattern(field: &str, text: &str) -> Result<GlobMatcher, HostError> {
    let glob = Pattern::new(text).map_err(|error| HostError::bad(format!("{field}: {error}")))?;
    Ok(glob.compile_matcher())
}

fn refusal(path: &str, error: io::Error) -> HostError {
    // cap-std says so when a path leads out by a link.
    let escapes =
        error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none_or(|code| code == 18);
    let kind = match error.kind() {
        _ if escapes || error.raw_os_error() == Some(18) => ErrorKind::OutOfBounds,
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::AlreadyExists => ErrorKind::Conflict,
        _ => ErrorKind::Io,
    };
    let message = match kind {
        ErrorKind::OutOfBounds => format!("{path} leads out of the workspace"),
        ErrorKind::NotFound => format!("there is no {path} in the workspace"),
        _ => format!("{path}: {error}"),
    };
    HostError::new(kind, message)
}

/// `O_NONBLOCK`, whose number is the same on every Linux that Rust has a tier for.
const fn nonblocking() -> i32 {
    0o4000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(result: Result<Done, HostError>) -> String {
        result.err().map(|error| error.kind).unwrap_or_else(|| "none".to_owned())
    }

    fn read(workspace: &Workspace, path: &str) -> Result<Done, HostError> {
        workspace.read(&ReadFile { path: path.to_owned(), offset: 0, limit: 2000 })
    }

    #[test]
    fn nothing_leads_out_of_a_workspace_and_nothing_secret_is_opened() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(outside.path().join("x"), "x").unwrap();
        std::fs::write(root.path().join(".env"), "KEY=1").unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("away")).unwrap();
        std::os::unix::fs::symlink(root.path().join(".env"), root.path().join("plain")).unwrap();
        std::os::unix::fs::symlink(".env", root.path().join("near")).unwrap();
        let workspace = Workspace::open(root.path()).unwrap();
        for path in ["../x", "/etc/passwd", "away/x", "a/../../x"] {
            assert_eq!(error(read(&workspace, path)), "out_of_bounds", "{path}");
        }
        assert_eq!(error(read(&workspace, ".env")), "secret");
        assert_eq!(error(read(&workspace, "near")), "secret");
        assert_ne!(error(read(&workspace, "plain")), "none");
        let write = WriteFile { path: "away/y".to_owned(), content: String::new() };
        assert_eq!(error(workspace.write(&write)), "out_of_bounds");
        assert!(!outside.path().join("y").exists());
        // By its absolute name a file of the workspace is one.
        std::fs::write(root.path().join("a"), "1\n").unwrap();
        assert_eq!(error(read(&workspace, &root.path().join("a").display().to_string())), "none");
    }

    #[test]
    fn a_fifo_or_a_device_is_not_waited_for() {
        let root = tempfile::tempdir().unwrap();
        std::process::Command::new("mkfifo").arg(root.path().join("pipe")).status().unwrap();
        let workspace = Workspace::open(root.path()).unwrap();
        assert_eq!(error(read(&workspace, "pipe")), "invalid");
        assert_eq!(error(read(&workspace, "absent")), "not_found");
    }

    #[test]
    fn what_is_bounded_says_so() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a"), "1\n2\n3\n4").unwrap();
        let workspace = Workspace::open(root.path()).unwrap();
        let part = workspace.read(&ReadFile { path: "a".to_owned(), offset: 1, limit: 2 }).unwrap().value;
        assert_eq!(part["content"], "2\n3\n");
        assert_eq!(
            part["counters"],
            json!({"seen": 3, "retained": 2, "dropped": 1, "truncated": true, "unit": "lines"})
        );
    }

    #[test]
    fn an_edit_needs_one_match_and_replaces_the_file_in_one_step() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a"), "x y x").unwrap();
        let workspace = Workspace::open(root.path()).unwrap();
        let edit = |old: &str, replace_all| {
            let (old, new) = (old.to_owned(), "z".to_owned());
            workspace.edit(&EditFile { path: "a".to_owned(), old, new, replace_all })
        };
        assert_eq!(error(edit("x", false)), "invalid");
        assert_eq!(error(edit("w", false)), "invalid");
        assert_eq!(edit("x", true).unwrap().value["replaced"], 2);
        assert_eq!(std::fs::read_to_string(root.path().join("a")).unwrap(), "z y z");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn searches_skip_secrets_and_count_what_they_give() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("sub")).unwrap();
        for (path, text) in
            [("a.py", "import os"), ("sub/b.py", "import sys\nimport os"), (".env", "import os")]
        {
            std::fs::write(root.path().join(path), text).unwrap();
        }
        let workspace = Workspace::open(root.path()).unwrap();
        let found = workspace.glob(&Glob { pattern: "**/*.py".to_owned(), path: None }).unwrap().value;
        assert_eq!(found["files"], json!(["a.py", "sub/b.py"]));
        let grep = Grep { pattern: "import os".to_owned(), path: None, include: Some("*.py".to_owned()) };
        let hits = workspace.grep(&grep).unwrap().value;
        assert_eq!(hits["counters"]["seen"], 2);
        assert_eq!(hits["hits"][1], json!({"path": "sub/b.py", "line": 2, "text": "import os"}));
        let listed = workspace.list(&ListDir { path: None }).unwrap().value;
        assert_eq!(listed["counters"]["seen"], 2);
    }
}
