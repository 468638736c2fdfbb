"""The standard streams of user code, and the order of everything it shows.

stdout and stderr write straight to descriptors 1 and 2, a line a system call. The supervisor
reads them and the wire as three pipes, so before the channel changes the worker waits until the
pipe written before is empty: then the order of reading is the order of writing.

A stream costs nothing extra while it stays the channel in use: its `write` is the C method. Only
when a change of channel must be noticed, or a thread of an earlier cell may write, an instance
attribute `write` stands in front of it.
"""

import fcntl
import io
import os
import sys
from _thread import RLock, get_ident
from time import monotonic, sleep

from termios import FIONREAD

wire_module = need("wire")

# How long a change of channel waits for the reader at most; it shrinks once waiting was in vain.
DRAIN_SECONDS = 0.2
STRAY_CHUNK = 16384
STDIN_MESSAGE = (
    "this cell cannot read standard input: nobody is there to answer. "
    "Put the value into the code instead."
)

_dup2, _fstat, _getpid, _sched_yield = os.dup2, os.fstat, os.getpid, os.sched_yield
_ioctl = fcntl.ioctl
_TextIOWrapper = io.TextIOWrapper
_zero = b"\0\0\0\0"


class Stream(_TextIOWrapper):
    """stdout or stderr of user code. It cannot be closed, only what stands before it can."""

    def __init__(self, output, descriptor):
        raw = io.FileIO(descriptor, "wb", closefd=False)
        super().__init__(
            io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        self.mode = "w"
        self._agarose = (output, descriptor)

    @property
    def name(self):
        return "<stdout>" if self._agarose[1] == 1 else "<stderr>"

    @property
    def buffer(self):
        output, descriptor = self._agarose
        if output.stray_threads is None or not output.is_stray(get_ident()):
            output.switch(descriptor)
        return _TextIOWrapper.buffer.__get__(self)

    def close(self):
        self.flush()

    def detach(self):
        self.flush()
        return io.BufferedWriter(io.FileIO(self._agarose[1], "wb", closefd=False))

    def __del__(self):
        pass


class NoInput(io.TextIOBase):
    """stdin of user code: every read says at once that nobody answers."""

    encoding = "utf-8"
    errors = "strict"
    name = "<stdin>"
    mode = "r"

    def fileno(self):
        return 0

    def readable(self):
        return True

    def close(self):
        pass

    def read(self, size=-1):
        raise EOFError(STDIN_MESSAGE)

    readline = readlines = __next__ = read

    def __iter__(self):
        return self

    @property
    def buffer(self):
        return self


class Output:
    """Both streams, their order, and the threads whose output is not the running cell's."""

    def __init__(self, wire):
        self.wire = wire
        self.pid = _getpid()
        self.saved = {number: wire_module.high(number) for number in (0, 1, 2)}
        self.identity = {number: _identity(saved) for number, saved in self.saved.items()}
        self.streams = {}
        # Channels whose pipe may hold what the supervisor has not read: 1, 2 or "wire".
        self.dirty = set()
        self.active = None
        # Thread ident -> its Thread object if it has one; None when there are none.
        self.stray_threads = None
        self.stray_text = {1: "", 2: ""}
        self.stray_lock = RLock()
        self.running = False
        self.patience = DRAIN_SECONDS
        self.stdin = NoInput()
        self._guards = {1: self._guard(1), 2: self._guard(2)}
        self.restore()

    def restore(self):
        """Makes descriptors 0, 1, 2 and sys.std* what they were, whatever the cell before did."""
        for number, saved in self.saved.items():
            if _identity(number) != self.identity[number]:
                _dup2(saved, number)
        for number in (1, 2):
            stream = self.streams.get(number)
            if stream is None or stream.closed or _TextIOWrapper.buffer.__get__(stream).closed:
                stream = self.streams[number] = Stream(self, number)
                self.listen(number)
            elif stream.errors != "backslashreplace" or not stream.line_buffering:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
        stdout, stderr = self.streams[1], self.streams[2]
        if sys.__dict__.get("stdout") is not stdout or sys.__dict__.get("stderr") is not stderr:
            sys.stdout = sys.__stdout__ = stdout
            sys.stderr = sys.__stderr__ = stderr
        sys.stdin = sys.__stdin__ = self.stdin

    def begin(self):
        """A cell begins: the threads there are now belong to earlier ones."""
        self.flush_stray()
        self.dirty.clear()
        self.patience = DRAIN_SECONDS
        self.active = None
        threads = sys._current_frames()
        if len(threads) > 1:
            threading = sys.modules.get("threading")
            known = getattr(threading, "_active", {}) if threading else {}
            self.stray_threads = {
                ident: known.get(ident) for ident in threads if ident != self.wire.interrupts.main
            }
        else:
            self.stray_threads = None
        self.running = True
        self.listen(1)
        self.listen(2)

    def end(self):
        """The cell is over: all it wrote is in the pipes, and later writers are strays."""
        self.flush()
        self.running = False
        self.listen(1)
        self.listen(2)

    def flush(self):
        for stream in self.streams.values():
            try:
                stream.flush()
            except (OSError, ValueError):
                # The cell closed the descriptor or the buffer; it is restored before the next.
                pass

    def listen(self, number):
        """Notice the next write to this stream."""
        self.streams[number].write = self._guards[number]

    def _guard(self, number):
        def write(text):
            if not self.running or self.stray_threads is not None:
                if self.is_stray(get_ident()):
                    return self.stray(number, text)
            if self.active != number:
                self.switch(number)
            return _TextIOWrapper.write(self.streams[number], text)

        return write

    def is_stray(self, ident):
        """Whether the thread was started by an earlier cell."""
        if _getpid() != self.pid or ident == self.wire.interrupts.main:
            return False
        if not self.running:
            return True
        strays = self.stray_threads
        if strays is None or ident not in strays:
            return False
        # The ident of a thread that ended is given out again.
        thread = strays[ident]
        if thread is None:
            return True
        threading = sys.modules.get("threading")
        return threading is None or threading._active.get(ident) is thread

    def stray(self, number, text):
        """Text of a thread that the running cell did not start: it goes to the kernel's own log."""
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        with self.stray_lock:
            held = self.stray_text[number] + text
            cut = len(held) if len(held) > STRAY_CHUNK else held.rfind("\n") + 1
            self.stray_text[number] = held[cut:]
        # Without the lock: a __del__ that prints while a frame is written must not wait for it.
        self._send_stray(number, held[:cut])
        return len(text)

    def flush_stray(self):
        for number in (1, 2):
            with self.stray_lock:
                text, self.stray_text[number] = self.stray_text[number], ""
            self._send_stray(number, text)

    def _send_stray(self, number, text):
        head = {"t": "stray", "channel": "stdout" if number == 1 else "stderr"}
        for start in range(0, len(text), 1 << 20):
            self.wire.send(head, text[start : start + (1 << 20)].encode("utf-8", "backslashreplace"))

    def switch(self, channel):
        """Waits until what other channels wrote has been read; `channel` is written next."""
        if _getpid() != self.pid:
            return
        for other in list(self.dirty):
            if other != channel:
                self._settle(other)
        self.dirty.clear()
        self.dirty.add(channel)
        previous, self.active = self.active, channel
        if previous in (1, 2) and previous != channel:
            self.listen(previous)
        if channel in (1, 2) and self.stray_threads is None and self.running:
            self.streams[channel].__dict__.pop("write", None)

    def before_frame(self):
        """What the cell wrote so far is read before the next frame is."""
        if _getpid() == self.pid and self.dirty - {"wire"}:
            self.switch("wire")
        self.dirty.add("wire")
        self.active = "wire"
        self.listen(1)
        self.listen(2)

    def after_frame(self):
        """The frame is read before anything else is written, also by what writes to descriptors unseen."""
        if _getpid() == self.pid:
            self._settle("wire")
            self.dirty.discard("wire")

    def another_writes(self):
        """A program that the cell starts may write to both descriptors unseen, from now on."""
        if _getpid() != self.pid:
            return
        for channel in list(self.dirty):
            self._settle(channel)
        self.dirty.update((1, 2))
        self.active = None
        self.listen(1)
        self.listen(2)

    def _settle(self, channel):
        descriptor = self.wire.outgoing if channel == "wire" else channel
        try:
            if channel in (1, 2):
                self.streams[channel].flush()
            if _ioctl(descriptor, FIONREAD, _zero) == _zero:
                return
            give_up = monotonic() + self.patience
            pause = 0.0
            while _ioctl(descriptor, FIONREAD, _zero) != _zero:
                if monotonic() > give_up:
                    self.patience /= 8
                    return
                if pause < 0.00002:
                    _sched_yield()
                else:
                    sleep(pause)
                pause = min(pause + 0.000002, 0.001)
        except (OSError, ValueError):
            # Not a pipe any more: the cell put something else in its place.
            pass

    def before_fork(self):
        self.flush()

    def after_fork_in_child(self):
        for stream in self.streams.values():
            stream.__dict__.pop("write", None)


def _identity(number):
    try:
        status = _fstat(number)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)
