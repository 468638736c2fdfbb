"""`host`: what a cell may ask of the daemon, and the shell commands that it may run with its leave.

One call is under way at a time; those of other threads wait for their turn. Whoever makes a call
reads its answer from the wire, which nobody else reads while a cell runs.
"""

import os
import select
from _thread import allocate_lock, get_ident

wire_module = need("wire")

# The longest arguments of a call, in bytes.
MAX_ARGUMENTS = 15 << 20
# Integers beyond this are not numbers everywhere that JSON goes.
SAFE_INTEGER = 1 << 53
# Methods that a driver may serve; calling one that nobody serves says what would.
DRIVER_METHODS = (
    "llm", "delegate", "children", "collect", "stop_child", "send_message", "fold", "score_mutations", "web_search",
)

_getpid, _read, _write = os.getpid, os.read, os.write


class HostError(RuntimeError):
    """A call that has no value. `kind` is of a closed set; `details` has the particulars, if any."""

    def __init__(self, kind, message, details=None):
        super().__init__(message)
        self.kind = kind
        self.details = details

    def __reduce__(self):
        return HostError, (self.kind, str(self), self.details)


HostError.__module__ = "host"


def camel(name):
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def snake(name):
    return "".join("_" + c.lower() if c.isupper() else c for c in name)


def pack(value, where):
    """`value` as JSON that keeps its type: what JSON lacks is an object with one `$` key."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -SAFE_INTEGER <= value <= SAFE_INTEGER else {"$int": str(value)}
    if kind is float:
        if value != value or value in (float("inf"), float("-inf")):
            return {"$float": str(value)}
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        from base64 import b64encode

        return {"$bytes": b64encode(bytes(value)).decode("ascii")}
    if isinstance(value, dict):
        packed = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                raise HostError("bad_request", "%s: its keys have to be text, and one is %r" % (where, key))
            packed[key] = pack(inner, where)
        if len(packed) == 1 and next(iter(packed)).startswith("$"):
            return {"$object": packed}
        return packed
    if isinstance(value, (list, tuple, set, frozenset)):
        return [pack(inner, where) for inner in value]
    if isinstance(value, os.PathLike):
        return os.fsdecode(os.fspath(value))
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return pack(int(value), where)
    if isinstance(value, float):
        return pack(float(value), where)
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", None) == 0:
        return pack(item(), where)
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        return pack(tolist(), where)
    raise HostError("bad_request", "%s: a %s cannot be sent" % (where, kind.__name__))


def unpack(value):
    """The value that `pack` made JSON of."""
    if isinstance(value, list):
        return [unpack(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (key, inner), = value.items()
        if key == "$int":
            return int(inner)
        if key == "$float":
            return float(inner)
        if key == "$bytes":
            from base64 import b64decode

            return b64decode(inner)
        if key == "$object":
            return {name: unpack(part) for name, part in inner.items()}
    return {key: unpack(inner) for key, inner in value.items()}


class Calls:
    """The calls of this worker, one after the other."""

    def __init__(self, cells):
        self.cells = cells
        self.wire = cells.wire
        self.interrupts = cells.interrupts
        self.pid = _getpid()
        self.number = 0
        self.turn = allocate_lock()
        self.wake = None
        self.closing = False

    def call(self, method, arguments):
        """Calls a method of the daemon; the arguments are named as in Python."""
        head = {}
        for name, value in arguments.items():
            if value is not None:
                head[camel(name)] = pack(value, name)
        body = wire_module.to_json(head)
        if len(body) > MAX_ARGUMENTS:
            raise HostError(
                "too_large", "the arguments of host.%s are %d bytes long, and 15 MiB are allowed" % (method, len(body))
            )
        ok, answer = self._ask(method, body)
        value, _ = wire_module.scan(answer.decode("utf-8"), 0)
        if ok:
            value = unpack(value)
            if type(value) is dict:
                return {snake(key): inner for key, inner in value.items()}
            return value
        kind, message = value.get("kind", "internal"), value.get("message", "")
        raise HostError(kind, "host.%s: %s" % (method, message), value.get("details"))

    def _ask(self, method, body):
        if _getpid() != self.pid:
            raise HostError("unavailable", "a process that a cell forked has no host")
        running = self.cells.running
        if running is None or self.cells.output.is_stray(get_ident()):
            raise HostError("unavailable", "host.%s: the cell that would ask has ended" % method)
        with self.turn:
            if self.closing or self.cells.running != running:
                raise HostError("cancelled", "host.%s: its cell has ended" % method)
            if self.wake is None:
                low = os.pipe()
                self.wake = tuple(map(wire_module.high, low))
                for descriptor in low:
                    os.close(descriptor)
            self.number += 1
            number = self.number
            try:
                self.wire.send({"t": "host_call", "id": running, "call": number, "method": method}, body)
                return self._answer(number, method)
            except BaseException as error:
                if not isinstance(error, HostError):
                    # An interrupt, or an exception of a signal handler: nobody waits for the answer any more.
                    self.wire.send({"t": "host_call_given_up", "id": running, "call": number})
                raise

    def _answer(self, number, method):
        incoming, interrupts = self.wire.incoming, self.interrupts
        is_main = get_ident() == interrupts.main
        while True:
            if not self.wire.holds_frame():
                # Interrupts are raised here, between frames, and nowhere in the middle of one.
                ready, _, _ = select.select([incoming, self.wake[0]], [], [])
                if self.wake[0] in ready:
                    raise HostError("cancelled", "host.%s: its cell has ended" % method)
            interrupts.hold += is_main
            try:
                frame = self.wire.receive()
            finally:
                interrupts.hold -= is_main
            if frame is None:
                # The supervisor is gone, and the main thread will see that too.
                raise HostError("unavailable", "host.%s: there is nobody to answer" % method)
            kind, head, answer = frame
            if kind == "host_reply":
                if head.get("call") == number:
                    return bool(head.get("ok")), answer
                # The answer of a call that was given up.
                continue
            self.wire.early.append(frame)

    def end(self):
        """The cell is over: threads of it that wait for an answer get none."""
        if self.number == 0 or self.wake is None:
            return
        self.closing = True
        try:
            if not self.turn.acquire(False):
                _write(self.wake[1], b"x")
                self.turn.acquire()
                _read(self.wake[0], 1)
            self.turn.release()
        finally:
            self.closing = False


class Namespace:
    """Methods that belong together: `host.lineage[...]` and `host.lineage.graph(...)`."""

    def __init__(self, host):
        self._host = host

    def __getitem__(self, version_id):
        return self._host._call("lineage", version_id=version_id)

    def graph(self, version_id, max_depth=None, max_nodes=None):
        """The versions that a version came from, and how."""
        return self._host._call("lineage_graph", version_id=version_id, max_depth=max_depth, max_nodes=max_nodes)

    def __repr__(self):
        return "<host.lineage>"


class Host:
    """What a cell may ask of the daemon. `host.capabilities()` tells what there is here."""

    HostError = HostError

    def __init__(self, calls):
        self._calls = calls
        self.lineage = Namespace(self)

    def __repr__(self):
        return "<host of a cell: host.capabilities() tells what it offers>"

    def _call(self, method, **arguments):
        return self._calls.call(method, arguments)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in DRIVER_METHODS and name not in self._served():
            raise AttributeError("there is no host.%s here: host.capabilities() lists what there is" % name)

        def method(*texts, **arguments):
            """Calls a method that a driver serves."""
            if len(texts) > 1 or (texts and "request" in arguments):
                raise TypeError("host.%s takes one argument without a name at most, its request" % name)
            if texts:
                arguments["request"] = texts[0]
            return self._call(name, **arguments)

        method.__name__ = name
        return method

    def _served(self):
        return {offer["name"] for offer in self.capabilities()["handlers"]}

    def capabilities(self):
        """What is available here, and why the rest is not."""
        return self._call("capabilities")

    def submit_output(self, output, completion_bullets, output_schema=None):
        """Hands in the result of the task; it counts if the cell completes, and the last one counts."""
        return self._call(
            "submit_output",
            output=output if output is not None else {},
            completion_bullets=completion_bullets,
            output_schema=output_schema,
        )

    def bash(self, command, timeout=120, workdir=None, detach=False):
        """Runs a shell command, once it is allowed, and stops all of it when its time is over."""
        return need("bash").run(self._calls, command, timeout, workdir, detach)

    def read_file(self, path, offset=0, limit=2000):
        """Lines of a text file of the workspace."""
        return self._call("read_file", path=path, offset=offset, limit=limit)

    def write_file(self, path, content):
        """Writes a text file of the workspace, in one step."""
        return self._call("write_file", path=path, content=content)

    def edit_file(self, path, old, new, replace_all=False):
        """Replaces one text by another in a file of the workspace."""
        return self._call("edit_file", path=path, old=old, new=new, replace_all=replace_all)

    def glob(self, pattern, path=None):
        """Files of the workspace whose path fits a pattern."""
        return self._call("glob", pattern=pattern, path=path)

    def grep(self, pattern, path=None, include=None):
        """Lines of files of the workspace that fit a regular expression."""
        return self._call("grep", pattern=pattern, path=path, include=include)

    def list_dir(self, path="."):
        """What is in a directory of the workspace."""
        return self._call("list_dir", path=path)

    def save_artifact(self, path, filename=None, content_type=None, input_version_ids=(), source=None):
        """Keeps a copy of a file of the workspace, or of bytes, as a version that never changes."""
        given = {"content": path} if isinstance(path, (bytes, bytearray, memoryview)) else {"path": path}
        return self._call(
            "save_artifact",
            filename=filename,
            content_type=content_type,
            input_version_ids=list(input_version_ids),
            source=source,
            **given,
        )

    def artifacts(self, name=None, content_type=None, limit=100):
        """The artifacts of this session, the newest first."""
        return self._call("artifacts", name=name, content_type=content_type, limit=limit)

    def artifact_path(self, version_id):
        """A file with the content of a version."""
        return self._call("artifact_path", version_id=version_id)["path"]

    def view_image(self, version_id=None, path=None):
        """Shows an image, of an artifact or of the workspace."""
        shown = self._call("view_image", version_id=version_id, path=path)
        self._calls.cells.displays().publish({shown["content_type"]: shown["content"]})

    def materialise_artifact(self, version_id, filename=None):
        """Brings a version of another session in as this session's own."""
        return self._call("materialise_artifact", version_id=version_id, filename=filename)

    def todo_read(self):
        """The session's todos."""
        return self._call("todo_read")

    def todo_write(self, todos):
        """Replaces the session's todos."""
        return self._call("todo_write", todos=list(todos))

    def plan_read(self):
        """The session's plan: its steps, by their ids."""
        return self._call("plan_read")

    def plan_update(self, step_id, status, note=None):
        """Sets how a step stands: pending, in_progress, done, blocked or dropped."""
        return self._call("plan_update", step_id=step_id, status=status, note=note)

    def remember(self, content, block="general"):
        """Adds a line to the session's memory."""
        return self._call("remember", content=content, block=block)

    def exec_background(self, code, name=None):
        """Runs code in a kernel of its own, beside this cell, and returns at once."""
        from secrets import token_hex

        return self._call("exec_background", code=code, name=name, key=token_hex(8))

    def exec_peek(self, id):
        """How a job stands, and what it has printed."""
        return self._call("exec_peek", id=id)

    def exec_interrupt(self, id):
        """Stops a job."""
        return self._call("exec_interrupt", id=id)

    def exec_list(self):
        """The jobs of this session that have not ended."""
        return self._call("exec_list")
