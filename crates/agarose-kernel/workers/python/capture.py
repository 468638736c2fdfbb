"""Which files a cell read and wrote.

An audit hook notes what is opened while a cell runs. What was written is found by looking, once
after the cell, for files of the workspace that changed since it began: ctime, which no program
can set, against the clock that the kernel stamps files with. A cell that opened nothing for
writing, started nothing and was quick does not look at all. Everything is bounded, in number and
in time, and the counters tell what was seen beyond the bound.
"""

import os
import sys
from stat import S_ISREG
from time import clock_gettime_ns, perf_counter, sleep, time_ns

MAX_PATHS = 256
MAX_PATH_CHARS = 1024
MAX_REMEMBERED = 10_000
MAX_HASHED_FILE = 16 << 20
HASH_SECONDS = 0.25
WALK_SECONDS = 0.3
WALK_ENTRIES = 50_000
# A cell that took this long may have written from native code, which no audit event announces.
LONG_CELL_SECONDS = 0.05
CLOCK_REALTIME_COARSE = 5
SKIPPED_DIRECTORIES = frozenset(("__pycache__", "node_modules", "site-packages"))
SECRET_WORDS = ("credential", "secret", "password", "passwd", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
SECRET_NAMES = frozenset((".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", "kubeconfig"))
SECRET_ENDINGS = (".pem", ".key", ".p12", ".pfx", ".keystore", ".jks", ".ppk", ".kdbx", ".asc", ".gpg")
SECRET_DIRECTORIES = ("/.ssh/", "/.aws/", "/.gnupg/", "/.kube/", "/.docker/", "/.azure/")

# Events that change a file without an `open`, and which argument is its path.
CHANGES = {"os.rename": 1, "os.link": 1, "os.symlink": 1, "os.truncate": 0, "sqlite3.connect": 0}
PROGRAMS = frozenset(
    ("subprocess.Popen", "os.system", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.exec")
)

_fspath, _getcwd, _stat, _scandir = os.fspath, os.getcwd, os.stat, os.scandir
_open, _close, _read, _fsdecode = os.open, os.close, os.read, os.fsdecode
_O_ACCMODE = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
_normpath = os.path.normpath


class Files:
    """What the running cell did with files."""

    def __init__(self, directory, output):
        self.recording = False
        self.output = output
        self.directory = directory
        self.workspace = "/"
        self.excluded = ()
        self.read = {}
        self.written = {}
        self.touched = False
        # Whether a cell imported native code that is not the interpreter's own.
        self.native = False
        self._clear()
        sys.addaudithook(self._hook())

    def set_workspace(self, workspace):
        self.workspace = os.path.abspath(workspace)
        inside = self.workspace + "/"
        excluded = {self.directory, sys.prefix, sys.base_prefix, sys.exec_prefix, "/usr", "/lib", "/lib64"}
        excluded.update(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
        prefixes = {os.path.abspath(path) + "/" for path in excluded if path and path != "/"}
        self.excluded = tuple(
            sorted(prefix for prefix in prefixes if not inside.startswith(prefix))
        ) + ("/proc/", "/sys/", "/dev/")

    def _clear(self):
        self.read.clear()
        self.written.clear()
        self.read_seen = self.written_seen = 0
        self.touched = False

    def _hook(self):
        note, output = self._opened, self.output
        library = os.__file__.rpartition("/")[0] + "/lib-dynload/"

        def hook(event, arguments):
            if not self.recording:
                return
            if event == "open":
                note(arguments)
            elif event in PROGRAMS:
                self._program_starts()
                output.another_writes()
            elif event == "import":
                if arguments[1] and not arguments[1].startswith(library):
                    self.native = True
            elif event in CHANGES:
                note((arguments[CHANGES[event]], "w", os.O_RDWR))

        return hook

    def _program_starts(self):
        """What a program writes is known by its time alone, which must differ from the cell's start."""
        self.touched = True
        while clock_gettime_ns(CLOCK_REALTIME_COARSE) <= self.stamp:
            sleep(0.0005)

    def _opened(self, arguments):
        path, _, flags = arguments
        if type(path) is int:
            return
        try:
            path = _fsdecode(_fspath(path))
        except (TypeError, ValueError):
            return
        writes = isinstance(flags, int) and flags & _O_ACCMODE
        if writes:
            self.touched = True
        if not path.startswith("/"):
            if path == ":memory:" or path.startswith("file:"):
                return
            try:
                path = _getcwd() + "/" + path
            except OSError:
                return
        if path.endswith(".pyc") or "/.cache/" in path or path.startswith(self.excluded):
            return
        seen = self.written if writes else self.read
        if path in seen:
            return
        if len(seen) < MAX_REMEMBERED:
            seen[path] = None
        if writes:
            self.written_seen += 1
        else:
            self.read_seen += 1

    def begin(self, capture):
        self._clear()
        self.started = perf_counter()
        # The kernel stamps files with a clock that lags by up to a tick (or, newer ones, does not):
        # what is stamped later than `stamp` is certainly of this cell, than `stamp_low` possibly.
        self.stamp_low = clock_gettime_ns(CLOCK_REALTIME_COARSE)
        self.stamp = time_ns()
        self.recording = bool(capture)

    def end(self):
        """The result's fields about files; nothing when there is nothing to say."""
        if not self.recording:
            return {}
        self.recording = False
        took = perf_counter() - self.started
        budget = WALK_SECONDS if self.touched else took / 10 if took > LONG_CELL_SECONDS else 0
        if not budget and not self.read:
            return {}
        found = {}
        complete = True
        if budget:
            complete = self._walk(found, min(budget, WALK_SECONDS))
            for path in self.written:
                path = _normpath(path)
                if path not in found:
                    self._look(path, found)
        deadline = perf_counter() + HASH_SECONDS
        fields = {}
        read = [path for path in dict.fromkeys(map(_normpath, self.read))]
        read_uses = [use for use in (self._use(path, deadline) for path in read[:MAX_PATHS]) if use]
        written_uses = [use for use in (self._use(path, deadline) for path in list(found)[:MAX_PATHS]) if use]
        if read_uses:
            fields["files_read"] = read_uses
        if written_uses:
            fields["files_written"] = written_uses
        counters = {
            "read_seen": len(read_uses) if len(read) <= MAX_PATHS else max(self.read_seen, len(read)),
            "written_seen": len(written_uses) if len(found) <= MAX_PATHS else len(found),
        }
        if not complete:
            counters["workspace_cut_short"] = True
        fields["files_counters"] = counters
        self._clear()
        return fields

    def _look(self, path, found):
        try:
            status = _stat(path)
        except (OSError, ValueError):
            return
        if S_ISREG(status.st_mode) and status.st_ctime_ns >= self.stamp_low:
            found[path] = None

    def _walk(self, found, seconds):
        """Looks for changed files; answers whether it could look at the whole workspace."""
        deadline = perf_counter() + seconds
        stamp = self.stamp
        directories = [self.workspace]
        entries = 0
        while directories:
            directory = directories.pop()
            below, changed = [], []
            try:
                with _scandir(directory) as listing:
                    for entry in listing:
                        entries += 1
                        name = entry.name
                        if entry.is_dir(follow_symlinks=False):
                            if name[0] != "." and name not in SKIPPED_DIRECTORIES:
                                below.append(entry.path)
                        elif name == "pyvenv.cfg" or (name == ".git" and directory != self.workspace):
                            below, changed = [], []
                            break
                        elif entry.is_file(follow_symlinks=False):
                            status = entry.stat(follow_symlinks=False)
                            if status.st_ctime_ns > stamp:
                                changed.append(entry.path)
                        if entries & 255 == 0 and perf_counter() > deadline:
                            return False
                    else:
                        if entries > WALK_ENTRIES:
                            return False
            except OSError:
                continue
            directories.extend(below)
            found.update(dict.fromkeys(changed))
            if perf_counter() > deadline:
                return not directories
        return True

    def _use(self, path, deadline):
        shown = path
        if path.startswith(self.workspace + "/"):
            shown = path[len(self.workspace) + 1 :]
        if is_secret(path):
            return {"path": _cut(mask(shown)), "masked": True}
        try:
            status = _stat(path)
        except (OSError, ValueError):
            return None
        if not S_ISREG(status.st_mode):
            return None
        use = {"path": _cut(shown), "size": status.st_size}
        if status.st_size <= MAX_HASHED_FILE and perf_counter() < deadline:
            digest = _digest(path, deadline)
            if digest:
                use["sha256"] = digest
        return use


def is_secret(path):
    """Whether the name of a file looks as if it held a secret."""
    name = path.rsplit("/", 1)[-1].lower()
    if name == ".env" or name.startswith(".env.") or name.endswith(".env"):
        return True
    if name in SECRET_NAMES or name.endswith(SECRET_ENDINGS):
        return True
    if any(word in name for word in SECRET_WORDS) and not name.endswith((".py", ".pub")):
        return True
    words = name.replace("-", "_").replace(".", "_").split("_")
    if "token" in words or "apikey" in words or ("api" in words and "key" in words):
        return True
    return any(directory in path for directory in SECRET_DIRECTORIES)


def mask(path):
    """The path without the name: where it was, but not what."""
    directory, slash, _ = path.rpartition("/")
    return directory + slash + "***"


def _cut(path):
    path = path.encode("utf-8", "backslashreplace").decode("utf-8")
    return path if len(path) <= MAX_PATH_CHARS else path[: MAX_PATH_CHARS - 1] + "…"


def _sha256():
    try:
        from _hashlib import openssl_sha256 as sha256
    except Exception:
        from hashlib import sha256
    return sha256()


def _digest(path, deadline):
    try:
        descriptor = _open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    try:
        digest = _sha256()
        while True:
            part = _read(descriptor, 1 << 18)
            if not part:
                return digest.hexdigest()
            digest.update(part)
            if perf_counter() > deadline:
                return None
    except OSError:
        return None
    finally:
        _close(descriptor)


def packages_digest():
    """A digest of the installed distributions' names and versions, by the names of their folders."""
    names = set()
    for directory in sys.path:
        if directory.endswith(("site-packages", "dist-packages")):
            try:
                names.update(
                    name for name in os.listdir(directory) if name.endswith((".dist-info", ".egg-info"))
                )
            except OSError:
                continue
    digest = _light_sha256()
    for name in sorted(names):
        digest.update(name.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()


def _light_sha256():
    # The built-in module: hashlib and OpenSSL would cost several milliseconds of the start.
    for module in ("_sha2", "_sha256"):
        try:
            return __import__(module).sha256()
        except ImportError:
            continue
    return _sha256()
