"""Shell commands of a cell. Each runs once, under a capability of the daemon for exactly it.

The command is a process group of its own. All that it printed is counted and its end kept; when its
time is over, or the cell is interrupted, nothing of it is left.
"""

import hashlib
import os
import selectors
import signal
import subprocess
import time
from _thread import get_ident
from secrets import token_hex, token_urlsafe

HostError = need("host").HostError

# What is kept of each stream, in bytes: the last of it, with the first of it in front.
KEPT = {"stdout": 30_000, "stderr": 8_000}
HEAD = 4_000
# How long what is to go may take on TERM, in seconds.
GRACE = 2.0
MARK = "AGAROSE_BASH"
# A capability that lives longer than this, in milliseconds, was not made for this command.
LONGEST_LIFE = 60_000
# How much of the workspace is compared.
MAX_FILES = 5_000
MAX_CHANGES = 100

_seen = set()


def run(calls, command, timeout, workdir, detach):
    """Asks for leave, runs the command and reports how it went."""
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise HostError("bad_request", "host.bash: the command has to be text, not empty and without NUL")
    try:
        seconds = float(timeout)
    except (TypeError, ValueError):
        raise HostError("bad_request", "host.bash: the timeout has to be a number of seconds") from None
    if not 0 < seconds <= 7 * 24 * 3600:
        raise HostError("bad_request", "host.bash: the timeout has to be more than 0 and at most seven days")
    asked = {
        "command_sha256": hashlib.sha256(command.encode("utf-8", "surrogateescape")).hexdigest(),
        "cwd": os.fspath(workdir) if workdir is not None else os.getcwd(),
        "generation": calls.cells.generation,
        "challenge": token_urlsafe(24),
        "detach": bool(detach),
    }
    granted = calls.call("bash", dict(asked, command=command, timeout_ms=max(1, round(seconds * 1000))))
    _verify(asked, granted)
    calls.call("bash_start", granted)
    outcome = Run(calls, command, granted["cwd"], seconds, detach)
    status = "failed"
    try:
        status = outcome.go()
    except BaseException as error:
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else outcome.status
        raise
    finally:
        report = outcome.report(granted["token"], status)
        # An interrupt that comes now is raised when the report is made.
        interrupts = calls.interrupts
        is_main = get_ident() == interrupts.main
        interrupts.hold += is_main
        try:
            calls.call("bash_report", report)
        except HostError:
            # The cell is being stopped: the log says that the outcome is not known.
            pass
        finally:
            interrupts.hold -= is_main
    if status == "timed_out":
        shown = outcome.value()
        raise HostError("timeout", "host.bash: the command was stopped after %g s" % seconds, shown)
    interrupts.check()
    return outcome.value()


def _verify(asked, granted):
    """A dispatcher that grants something else than what was asked for is not believed."""
    for name in ("command_sha256", "generation", "challenge", "detach"):
        if granted.get(name) != asked[name]:
            raise HostError("capability_mismatch", "host.bash: the capability is for another " + name)
    token, life = granted.get("token"), granted.get("expires_ms", 0) - granted.get("issued_ms", 0)
    if not isinstance(token, str) or len(token) < 24 or not 0 < life <= LONGEST_LIFE:
        raise HostError("capability_mismatch", "host.bash: the capability is none")
    if token in _seen:
        raise HostError("capability_consumed", "host.bash: the capability was used before")
    _seen.add(token)
    if len(_seen) > 1024:
        _seen.pop()


def _left(pid):
    """A descriptor that is readable once the process has left, where there is such a thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


class Tail:
    """The first and the last bytes of a stream, and how many there were."""

    def __init__(self, limit):
        self.limit = limit
        self.seen = 0
        self.head = bytearray()
        self.tail = bytearray()

    def add(self, data):
        self.seen += len(data)
        room = HEAD - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        over = len(self.tail) - (self.limit - HEAD)
        if over > 0:
            del self.tail[:over]

    @property
    def retained(self):
        return len(self.head) + len(self.tail)

    def text(self):
        dropped = self.seen - self.retained
        gap = b"\n... %d bytes dropped ...\n" % dropped if dropped else b""
        return (bytes(self.head) + gap + bytes(self.tail)).decode("utf-8", "replace")

    def counters(self):
        dropped = self.seen - self.retained
        return {
            "seen": self.seen,
            "retained": self.retained,
            "dropped": dropped,
            "truncated": dropped > 0,
            "unit": "bytes",
        }


class Run:
    """One command, from its start to its end."""

    def __init__(self, calls, command, cwd, seconds, detach):
        self.interrupts = calls.interrupts
        self.workspace = calls.cells.workspace
        self.command, self.cwd, self.seconds, self.detach = command, cwd, seconds, detach
        self.mark = token_hex(8)
        self.streams = {name: Tail(limit) for name, limit in KEPT.items()}
        self.exit_code = None
        self.stopped = 0
        self.wall = 0.0
        self.status = "failed"
        self.changes = None

    def go(self):
        before = _files(self.workspace)
        began = time.monotonic()
        self.until = began + self.seconds
        try:
            self.process = subprocess.Popen(
                ["/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh", "-c", self.command],
                cwd=self.cwd,
                env=dict(os.environ, **{MARK: self.mark}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self.status = "launch_failed"
            raise HostError("io", "host.bash: the command could not be started: %s" % error) from None
        keep = False
        try:
            is_late = self._drain()
            self.status = "timed_out" if is_late else "completed"
            keep = self.detach and not is_late
        finally:
            self._end(keep)
            self.wall = time.monotonic() - began
        self.changes = _compare(before, _files(self.workspace))
        return self.status

    def _drain(self):
        """Reads both streams to their ends, until the shell has left; says whether time ran out before.

        Whoever has a stream open still is part of the command, also when the shell has left.
        """
        with selectors.DefaultSelector() as selector:
            for name in KEPT:
                pipe = getattr(self.process, name)
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, name)
            left = _left(self.process.pid)
            if left is not None:
                selector.register(left, selectors.EVENT_READ, None)
            try:
                while self.process.poll() is None or (self._streams_open(selector) and not self.detach):
                    patience = self.until - time.monotonic()
                    if patience <= 0:
                        return True
                    for key, _ in selector.select(patience if left is not None else min(patience, 0.05)):
                        if key.data is None:
                            selector.unregister(key.fileobj)
                            continue
                        data = key.fileobj.read(1 << 16)
                        if data:
                            self.streams[key.data].add(data)
                        elif data is not None:
                            selector.unregister(key.fileobj)
                return False
            finally:
                if left is not None:
                    os.close(left)

    @staticmethod
    def _streams_open(selector):
        return any(key.data is not None for key in selector.get_map().values())

    def _rest(self):
        """What is still in the pipes."""
        self.exit_code = self.process.returncode
        if self.exit_code is not None and self.exit_code < 0:
            self.exit_code = 128 - self.exit_code
        for name in KEPT:
            pipe = getattr(self.process, name)
            while True:
                try:
                    data = os.read(pipe.fileno(), 1 << 16)
                except (BlockingIOError, OSError):
                    break
                if not data:
                    break
                self.streams[name].add(data)

    def _members(self):
        """The processes of the command: its group, and what has left it but has its mark."""
        group, mark, found = self.process.pid, ("%s=%s" % (MARK, self.mark)).encode(), []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                if fields[0] in (b"Z", b"X"):
                    continue
                if int(fields[2]) != group:
                    with open("/proc/%s/environ" % name, "rb") as file:
                        if mark not in file.read().split(b"\0"):
                            continue
            except (OSError, IndexError, ValueError):
                continue
            found.append(int(name))
        return found

    def _end(self, keep):
        """Stops all that is left, unless it is to be kept; an interrupt meanwhile keeps nothing alive."""
        interrupts = self.interrupts
        is_main = get_ident() == interrupts.main
        interrupts.hold += is_main
        try:
            if not keep:
                self._stop()
            self.process.wait()
            self._rest()
            for name in KEPT:
                getattr(self.process, name).close()
        finally:
            interrupts.hold -= is_main

    def _stop(self):
        until = time.monotonic() + GRACE
        told = set()
        while True:
            members = self._members()
            if not members:
                break
            which = signal.SIGTERM if time.monotonic() < until else signal.SIGKILL
            for pid in members:
                try:
                    os.kill(pid, which)
                    # A stopped process does not heed TERM.
                    os.kill(pid, signal.SIGCONT)
                except OSError:
                    pass
            told.update(members)
            self.process.poll()
            time.sleep(0.01)
        self.stopped = len(told)

    def value(self):
        """What the cell gets."""
        value = {
            "exit_code": self.exit_code,
            "stdout": self.streams["stdout"].text(),
            "stderr": self.streams["stderr"].text(),
            "stdout_counters": self.streams["stdout"].counters(),
            "stderr_counters": self.streams["stderr"].counters(),
            "wall_ms": round(self.wall * 1000),
            "stopped": self.stopped,
        }
        if self.changes is not None:
            value["changes"] = self.changes
        return value

    def report(self, token, status):
        stdout, stderr = self.streams["stdout"], self.streams["stderr"]
        return {
            "token": token,
            "status": status,
            "exit_code": self.exit_code,
            "wall_ms": round(self.wall * 1000),
            "stdout_seen": stdout.seen,
            "stdout_retained": stdout.retained,
            "stderr_seen": stderr.seen,
            "stderr_retained": stderr.retained,
            "stopped": self.stopped,
        }


def _files(workspace):
    """Size and time of the workspace's files, as far as they are compared."""
    found = {}
    for directory, names, files in os.walk(workspace):
        names[:] = [name for name in names if name not in (".git", "node_modules", "__pycache__", ".venv")]
        for name in files:
            if len(found) >= MAX_FILES:
                return found
            path = os.path.join(directory, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue
            found[os.path.relpath(path, workspace)] = (status.st_size, status.st_mtime_ns)
    return found


def _compare(before, after):
    """What was made, changed and removed; names of secrets are masked."""
    capture = need("capture")

    def masked(path):
        return capture.mask(path) if capture.is_secret("/" + path) else path

    created = sorted(path for path in after if path not in before)
    removed = sorted(path for path in before if path not in after)
    changed = sorted(path for path in after if path in before and before[path] != after[path])
    total = len(created) + len(removed) + len(changed)
    room = MAX_CHANGES
    value = {}
    for name, paths in (("created", created), ("changed", changed), ("removed", removed)):
        value[name] = [masked(path) for path in paths[:room]]
        room -= len(value[name])
    value["dropped"] = max(0, total - MAX_CHANGES)
    return value
