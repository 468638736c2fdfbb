"""Frames between the worker and its supervisor, and the interrupts that must not tear them.

A frame is two little-endian u32 lengths, a JSON object and raw bytes. The supervisor may send
SIGINT at any time between `started` and `result`; the handler raises only where that is safe and
keeps the interrupt as owed otherwise, so that none is lost and none cuts a frame in two.
"""

import fcntl
import os
import sys
from _json import encode_basestring, make_encoder, make_scanner
from _signal import SIG_DFL, SIG_UNBLOCK, SIGINT, SIGQUIT, SIGURG, getsignal, pthread_kill, pthread_sigmask, signal
from _thread import RLock, get_ident, start_new_thread
from time import sleep

PROTOCOL = 1
# Limits of the framing; a longer claim is a broken peer, and nothing is allocated by it.
MAX_HEAD = 8 << 20
MAX_BODY = 256 << 20
# User code that closes low descriptors in a loop should miss the wire's.
HIGH_DESCRIPTOR = 230

_close, _getpid, _read, _writev = os.close, os.getpid, os.read, os.writev
_exit, _write = os._exit, os.write


class _Scan:
    """What the C scanner reads from its context; the json module would cost 5 ms of start."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo = {}


def _refuse(value):
    raise TypeError("not JSON: " + type(value).__name__)


_scan = scan = make_scanner(_Scan)
_encode = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, False)


def to_json(value):
    """`value` as UTF-8 JSON; a lone surrogate, which no reader takes, becomes `?`.

    Raises TypeError or ValueError for what JSON cannot say (NaN is such a thing).
    """
    return "".join(_encode(value, 0)).encode("utf-8", "replace")


def high(descriptor):
    """A copy of the descriptor with a high number that programs started by a cell do not inherit."""
    for number in (HIGH_DESCRIPTOR, 64, 10):
        try:
            return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, number)
        except OSError:
            continue
    return os.dup(descriptor)


def _nudged(signum, frame):
    pass


class Interrupts:
    """The SIGINT handler and what it owes to the running cell.

    `hold` counts reasons to delay (a frame is being written, the worker works for the cell);
    while it is not 0 an interrupt is kept in `pending` and raised by whoever lets go.
    """

    def __init__(self):
        self.pid = _getpid()
        self.main = get_ident()
        self.armed = False
        self.hold = 0
        self.pending = False
        self.seen = False
        self.raised = None
        # Code objects in whose own frame nothing is raised; set by the module that runs cells.
        self.guarded = frozenset()
        # (event loop, task, code object that runs the loop, is_loop_file) while a cell awaits.
        self.awaiting = None
        self.cancelling = False
        self.handler = self._handle

    def install(self):
        """Makes SIGINT ours again, whatever the cell before did with it."""
        if getsignal(SIGINT) is not self.handler:
            signal(SIGINT, self.handler)
        if getsignal(SIGURG) is not _nudged:
            # The supervisor's nudge: a SIGINT that came just before a blocking system call is
            # noticed only when that call returns, and any handled signal makes it return.
            signal(SIGURG, _nudged)
        pthread_sigmask(SIG_UNBLOCK, (SIGINT, SIGURG))

    def arm(self):
        """From here an interrupt belongs to the cell; held until its first instruction."""
        self.hold = 1
        self.pending = self.seen = self.cancelling = False
        self.raised = self.awaiting = None
        self.armed = True

    def disarm(self):
        """The cell is over: later signals mean nothing."""
        self.armed = False
        self.pending = False
        self.raised = self.awaiting = None

    def instance(self):
        """The exception of a delivered interrupt, remembered so that a user's own is told apart."""
        self.pending = False
        self.raised = KeyboardInterrupt()
        return self.raised

    def check(self):
        """Raises what is owed; the code that let go of `hold` calls it."""
        if self.pending and not self.hold and self.armed and get_ident() == self.main:
            raise self.instance()

    def _handle(self, signum, frame):
        if _getpid() != self.pid:
            raise KeyboardInterrupt
        if not self.armed:
            return
        self.seen = True
        if self.hold or (frame is not None and frame.f_code in self.guarded):
            self.pending = True
            return
        if self.awaiting is not None and self._loop_is_idle(frame):
            # Raising inside the loop's own code could leave it unusable, so the task is cancelled.
            loop, task = self.awaiting[:2]
            self.cancelling = True
            loop.call_soon_threadsafe(task.cancel)
            return
        raise self.instance()

    def _loop_is_idle(self, frame):
        runner, is_loop_file = self.awaiting[2:]
        while frame is not None:
            code = frame.f_code
            if code is runner:
                return True
            if not is_loop_file(code.co_filename):
                return False
            frame = frame.f_back
        return False

    def redeliver(self, error):
        """Sends an interrupt again that landed where Python discards exceptions (`__del__`)."""
        if error is None or error is not self.raised or not self.armed:
            return False

        def again():
            sleep(0.001)
            if self.armed and self.raised is error:
                pthread_kill(self.main, SIGINT)

        start_new_thread(again, ())
        return True


class Wire:
    """The two pipes to the supervisor."""

    def __init__(self, interrupts):
        self.interrupts = interrupts
        self.pid = _getpid()
        self.incoming = self._take("AGAROSE_WIRE_IN")
        self.outgoing = self._take("AGAROSE_WIRE_OUT")
        self._buffer = bytearray()
        self._lock = RLock()
        self._writing = False
        self._queued = []
        # Frames that somebody read who waited for another one.
        self.early = []

    @staticmethod
    def _take(name):
        low = int(os.environ.pop(name))
        descriptor = high(low)
        if descriptor != low:
            _close(low)
        return descriptor

    def forget(self):
        """In a forked child: the wire is the parent's alone."""
        for descriptor in (self.incoming, self.outgoing):
            try:
                _close(descriptor)
            except OSError:
                pass

    def holds_frame(self):
        """Whether a whole frame has been read already."""
        buffer = self._buffer
        if len(buffer) < 8:
            return False
        return len(buffer) >= 8 + int.from_bytes(buffer[:4], "little") + int.from_bytes(buffer[4:8], "little")

    def receive(self):
        """The next frame as (object, bytes), or None when the supervisor has gone."""
        lengths = self._bytes(8, at_boundary=True)
        if lengths is None:
            return None
        head_length = int.from_bytes(lengths[:4], "little")
        body_length = int.from_bytes(lengths[4:], "little")
        if head_length > MAX_HEAD or body_length > MAX_BODY:
            self.die("the supervisor's frame claims %d + %d bytes" % (head_length, body_length))
        head = self._bytes(head_length)
        body = self._bytes(body_length)
        try:
            value, _ = _scan(head.decode("utf-8"), 0)
            kind = value["t"]
        except Exception:
            self.die("a frame of the supervisor is not a JSON object with a t")
        return kind, value, body

    def _bytes(self, count, at_boundary=False):
        buffer = self._buffer
        while len(buffer) < count:
            part = _read(self.incoming, max(65536, min(count - len(buffer), 1 << 20)))
            if not part:
                if at_boundary and not buffer:
                    return None
                self.die("the supervisor's frame ends early")
            buffer += part
        taken = bytes(memoryview(buffer)[:count])
        del buffer[:count]
        return taken

    def send(self, head, body=b""):
        """Writes one frame whole. An interrupt that comes meanwhile is raised afterwards."""
        if _getpid() != self.pid:
            return
        text = to_json(head)
        lengths = len(text).to_bytes(4, "little") + len(body).to_bytes(4, "little")
        interrupts = self.interrupts
        if get_ident() != interrupts.main:
            self._send([lengths + text, body])
            return
        interrupts.hold += 1
        try:
            self._send([lengths + text, body])
        finally:
            interrupts.hold -= 1
        interrupts.check()

    def _send(self, parts):
        with self._lock:
            if self._writing:
                # The garbage collector ran a __del__ that displays while this thread writes.
                self._queued.append(parts)
                return
            self._writing = True
            try:
                self._write(parts)
                while self._queued:
                    self._write(self._queued.pop(0))
            finally:
                self._writing = False

    def _write(self, parts):
        parts = [memoryview(part) for part in parts if part]
        try:
            while parts:
                done = _writev(self.outgoing, parts)
                while parts and done >= len(parts[0]):
                    done -= len(parts.pop(0))
                if done:
                    parts[0] = parts[0][done:]
        except OSError as error:
            self.die("could not write to the supervisor: " + str(error))

    def log(self, level, message):
        """A remark for the supervisor's log."""
        self.send({"t": "log", "level": level, "message": message[:10_000]})

    def die(self, reason):
        """Ends the worker, which cannot work without its wire, with the reason on stderr."""
        try:
            _write(2, ("agarose worker: " + reason + "\n").encode("utf-8", "replace"))
        finally:
            _exit(70)


def reset_inherited_signals():
    """A daemon started in the background passes on ignored signals; programs must not inherit that."""
    signal(SIGQUIT, SIG_DFL)
    sys.stdin = None
