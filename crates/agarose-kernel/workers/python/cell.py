"""Runs cells, one after the other, in the namespace of a module `__main__` that is theirs alone.

A cell is parsed whole, then all but a trailing expression is executed and the expression's value
displayed. `started` is the first frame of a cell and `result` the last, whatever the cell does.
"""

import builtins
import faulthandler
import os
import resource
import sys
from _ast import Expr, Expression, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST
from _operator import is_
from _thread import get_ident
from time import perf_counter, process_time

wire_module = need("wire")
streams_module = need("streams")
capture_module = need("capture")
interop_module = need("interop")
names_module = need("names")
host_module = need("host")

CO_COROUTINE = 0x80
# A namespace of a kernel that lives for months keeps the sources of its last cells only.
MAX_SOURCES = 2000
MAX_SOURCE_CHARS = 16 << 20
# How long tasks that an interrupt cancelled may take for their own cleaning up.
CANCEL_SECONDS = 2.0
# Below this the worker itself could not run.
LEAST_RECURSION = 200
MAX_TRACEBACK = 1_000_000
MAX_WARNINGS = 20
SIMPLE = frozenset((int, float, complex, bool, str, bytes))

_chdir, _exit, _getcwd, _getpid = os.chdir, os._exit, os.getcwd, os.getpid
_getrusage, _SELF, _CHILDREN = resource.getrusage, resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
_getrecursionlimit, _setrecursionlimit = sys.getrecursionlimit, sys.setrecursionlimit
_gettrace, _settrace, _getprofile, _setprofile = sys.gettrace, sys.settrace, sys.getprofile, sys.setprofile
_modules = sys.modules
_original_builtins = dict(vars(builtins))
_builtins = vars(builtins)


_Function = type(need)


_Method = type(wire_module.Interrupts.instance.__get__(wire_module))


class Cells:
    """The worker's state between cells, and the running of one."""

    def __init__(self, directory):
        self.pid = _getpid()
        self.interrupts = wire_module.Interrupts()
        # The frames from which user code is entered and to which it returns.
        self.interrupts.guarded = frozenset(
            function.__code__ for function in (Cells.run, Cells._end, Cells._describe)
        )
        self.interrupts.install()
        wire_module.reset_inherited_signals()
        self.wire = wire_module.Wire(self.interrupts)
        self.output = streams_module.Output(self.wire)
        self.directory = directory
        self.options = {}
        self.workspace = None
        self.use_ipython = False
        self.running = None
        self.warnings = []
        self.future_flags = 0
        self.loop = None
        # Name -> source text of the cells that parsed; the newest are kept.
        self.sources = {}
        self.source_chars = 0
        self._shows = None
        self.last_value = None
        self.main = _clean_main()
        self.namespace = self.main.__dict__
        self.essential = dict(_modules)
        self.files = capture_module.Files(directory, self.output)
        self.names = names_module.Names(self.namespace)
        self.interop = interop_module.Interop(self)
        # Kept on a descriptor of its own, so that a cell that closed stderr still says why it died.
        faulthandler.enable(self.output.saved[2], all_threads=False)
        os.register_at_fork(
            before=self.output.before_fork,
            after_in_child=self._after_fork_in_child,
        )
        builtins.display = self.display
        self.generation = None
        self.calls = host_module.Calls(self)
        builtins.host = host_module.Host(self.calls)
        # What a cell finds after all that is what it gets back if it breaks it.
        _original_builtins.update(display=builtins.display, host=builtins.host)
        sys.unraisablehook = self._unraisable
        if not os.environ.get("PYTHONBREAKPOINT"):
            sys.breakpointhook = _no_debugger

    def _after_fork_in_child(self):
        self.wire.forget()
        self.output.after_fork_in_child()
        self.files.recording = False

    def _unraisable(self, unraisable):
        if not self.interrupts.redeliver(unraisable.exc_value):
            sys.__unraisablehook__(unraisable)

    # The loop.

    def serve(self):
        hello = self.wire.receive()
        if hello is None:
            _exit(0)
        kind, head, _ = hello
        if kind != "hello" or head.get("protocol") != wire_module.PROTOCOL:
            self.wire.die("expected a hello with protocol %d" % wire_module.PROTOCOL)
        self.options = head.get("options") or {}
        self.generation = head.get("generation")
        wanted = self.options.get("ipython", "off")
        self.use_ipython = wanted != "off" and need("ipython").is_installed()
        if wanted == "on" and not self.use_ipython:
            self.wire.die("this interpreter has no IPython: %s" % sys.executable)
        self.workspace = head.get("workspace") or os.getcwd()
        os.chdir(self.workspace)
        self.files.set_workspace(self.workspace)
        self.wire.send(
            {
                "t": "ready",
                "protocol": wire_module.PROTOCOL,
                "language": "python",
                "version": "%d.%d.%d" % sys.version_info[:3],
                "executable": sys.executable or "",
                "pid": self.pid,
                "prefix": sys.prefix,
                "packages_digest": capture_module.packages_digest(),
            }
        )
        while True:
            frame = self.wire.early.pop(0) if self.wire.early else self.wire.receive()
            if frame is None:
                break
            kind, head, body = frame
            if kind == "execute":
                source = body
                frame = body = None
                self.run(head, source)
                source = None
            elif kind == "shutdown":
                break
            elif kind == "host_reply":
                # The answer of a call that its cell gave up.
                pass
            else:
                self.wire.log("warn", "unknown frame " + repr(kind)[:100])
        self.leave()

    def leave(self):
        """Ends the worker. Threads of the cells are not waited for: one may never end."""
        try:
            atexit = _modules.get("atexit") or __import__("atexit")
            atexit._run_exitfuncs()
        finally:
            self.output.flush()
            _exit(0)

    # One cell.

    def run(self, head, source):
        """Runs one cell from `started` to `result`. Interrupts are never raised in this frame."""
        interrupts = self.interrupts
        self.running = head["id"]
        capture = bool(head.get("capture", True))
        name = head.get("name") or "<cell>"
        interrupts.arm()
        failure = None
        began = False
        begin = (perf_counter(), process_time(), _getrusage(_CHILDREN))
        try:
            self._prepare()
            self.wire.send({"t": "started", "id": self.running})
            parts = self.parse(name, source)
            source = None
            self.output.begin()
            self.files.begin(capture)
            began = True
            self._as_user(self._run_code, *parts)
        except BaseException as error:
            interrupts.hold = 1
            failure = error
        interrupts.hold = 1
        parts = None
        try:
            # A trace or profile function would see, and might break, the worker and every later
            # cell. A profiler in C (cProfile) does no harm and may span cells.
            if _gettrace() is not None:
                _settrace(None)
                self.warn("the cell's trace function was removed at its end")
            if type(_getprofile()) in (_Function, _Method):
                _setprofile(None)
                self.warn("the cell's profile function was removed at its end")
        except BaseException:
            # What a hook raises ends that hook.
            pass
        try:
            result = self._end(failure, name, capture and began, begin)
        except BaseException as error:
            # The cell left something that breaks even the worker's own code, but not its answer.
            result = self._bare_result(failure, error)
        failure = None
        interrupts.disarm()
        self.running = None
        interrupts.hold = 0
        self.wire.send(result)

    def _end(self, failure, name, capture, begin):
        """All that follows the cell's own code: figures, the error in words, files, usage."""
        if _getpid() != self.pid:
            self._leave_child(failure)
        self._heal()
        delivered = failure is not None and self._is_delivered(failure)
        if capture and "matplotlib.pyplot" in _modules:
            try:
                self._as_user(self.displays().figures, True)
            except BaseException as error:
                self.interrupts.hold = 1
                self.warn("figures could not be shown: " + type(error).__name__)
            self.interrupts.hold = 1
        described = None
        if failure is not None:
            described = self._describe(failure, name, delivered)
            self.interrupts.hold = 1
        self.calls.end()
        self._flush_c_library()
        self._heal()
        self.output.end()
        try:
            files = self.files.end()
        except OSError as error:
            # A cell that used up its descriptors leaves none to look at the workspace with.
            files = {}
            self.files.recording = False
            self.warn("files read and written could not be recorded: " + str(error))
        result = {
            "t": "result",
            "id": self.running,
            "status": "ok" if failure is None else "interrupted" if delivered else "error",
            "interrupt_seen": self.interrupts.seen,
        }
        if described is not None:
            result["error"] = described
        result.update(files)
        result.update(self.names.end())
        wall, cpu, before = begin
        after, own = _getrusage(_CHILDREN), _getrusage(_SELF)
        children = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        result["usage"] = {
            "wall_ms": round((perf_counter() - wall) * 1000),
            "cpu_ms": round((process_time() - cpu + children) * 1000),
            "peak_rss_kb": own.ru_maxrss,
        }
        if self.warnings:
            result["warnings"] = self.warnings
            self.warnings = []
        return result

    def _bare_result(self, failure, error):
        """The least that answers a cell, after the worker's own work for it failed."""
        self.files.recording = False
        for key, value in _original_builtins.items():
            _builtins[key] = value
        try:
            self.output.end()
        except Exception:
            pass
        result = {
            "t": "result",
            "id": self.running,
            "status": "ok" if failure is None else "error",
            "interrupt_seen": self.interrupts.seen,
            "warnings": ["the worker could not finish the cell's record: " + type(error).__name__],
        }
        if failure is not None:
            try:
                message = str(failure)[:4000].encode("utf-8", "replace").decode("utf-8")
            except BaseException:
                message = ""
            result["error"] = {"name": type(failure).__name__, "message": message, "traceback": ""}
        self.warnings = []
        return result

    def warn(self, text):
        """Adds a remark to the result of the running cell."""
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(text[:1000].encode("utf-8", "replace").decode("utf-8"))

    def _as_user(self, function, *arguments):
        """Runs user code: here, and only here, interrupts are raised where they land."""
        self.interrupts.hold = 0
        self.interrupts.check()
        return function(*arguments)

    def _flush_c_library(self):
        """Native code that prints through stdio holds its text back until it is told to write it."""
        if self.files.native or "_ctypes" in _modules:
            try:
                need("native").flush()
            except Exception as error:
                self.warn("the C library's streams could not be flushed: " + type(error).__name__)

    def _prepare(self):
        """Gives the cell what the one before may have broken."""
        self.interrupts.install()
        self.output.restore()
        try:
            _getcwd()
        except OSError:
            _chdir(self.workspace)
            self.warn("the working directory was gone; the cell ran in " + self.workspace)
        self.namespace.pop("__warningregistry__", None)

    def _heal(self):
        """Undoes what would break the worker or every later cell: lost builtins, modules, limits."""
        if _getrecursionlimit() < LEAST_RECURSION:
            _setrecursionlimit(1000)
            self.warn("the recursion limit was too low to go on; it is 1000 again")
        if not all(map(is_, map(_builtins.get, _original_builtins), _original_builtins.values())):
            for key, value in _original_builtins.items():
                now = _builtins.get(key, _builtins)
                if now is _builtins or (callable(value) and not callable(now)):
                    _builtins[key] = value
        modules = _modules
        if sys.__dict__.get("modules") is not modules:
            sys.modules = modules
        if modules.get("sys") is not sys or modules.get("builtins") is not builtins:
            for key, module in self.essential.items():
                modules.setdefault(key, module)
            modules["sys"] = sys
            modules["builtins"] = builtins
        if modules.get("__main__") is not self.main:
            modules["__main__"] = self.main
        namespace = self.namespace
        if "__builtins__" not in namespace:
            namespace["__builtins__"] = builtins
        if namespace.get("__name__") != "__main__":
            namespace["__name__"] = "__main__"

    def parse(self, name, source):
        """Compiles a cell to (code or None, code or None, whether the second's value is shown)."""
        text = source.decode("utf-8")
        flags = PyCF_ALLOW_TOP_LEVEL_AWAIT | self.future_flags
        try:
            tree = compile(text, name, "exec", PyCF_ONLY_AST | flags, True)
        except SyntaxError as error:
            refused = need("refuse").magic(text, name, error)
            if refused is None or not self.use_ipython:
                self.remember(name, text)
                if refused is None:
                    raise
                raise refused from None
            text = need("ipython").rewrite(text, self)
            tree = compile(text, name, "exec", PyCF_ONLY_AST | flags, True)
        self.remember(name, text)
        body = tree.body
        first = last = None
        shown = False
        if body and type(body[-1]) is Expr:
            shown = not _suppressed(text, body[-1])
            last = Expression(body.pop().value)
        if body:
            first = compile(tree, name, "exec", flags, True)
            if "__future__" in text:
                import __future__

                for feature in __future__.all_feature_names:
                    self.future_flags |= first.co_flags & getattr(__future__, feature).compiler_flag
                flags |= self.future_flags
        if last is not None:
            last = compile(last, name, "eval", flags, True)
        return first, last, shown

    def remember(self, name, text):
        """Keeps the source for tracebacks, `inspect.getsource` and spawned processes."""
        self.source_chars += len(text) - len(self.sources.pop(name, ""))
        self.sources[name] = text
        while len(self.sources) > 1 and (
            len(self.sources) > MAX_SOURCES or self.source_chars > MAX_SOURCE_CHARS
        ):
            oldest = next(iter(self.sources))
            self.source_chars -= len(self.sources.pop(oldest))
            self.interop.forget_source(oldest)
        self.interop.publish_source(name, text)

    def _run_code(self, first, last, shown):
        namespace = self.namespace
        if first is not None:
            value = eval(first, namespace)
            if first.co_flags & CO_COROUTINE:
                self._await(value)
            value = None
        if last is not None:
            value = eval(last, namespace)
            if last.co_flags & CO_COROUTINE:
                value = self._await(value)
            if shown and value is not None:
                self._show_value(value)

    def _show_value(self, value):
        if _getpid() != self.pid:
            return
        if _builtins.get("_", self.last_value) is self.last_value:
            _builtins["_"] = self.last_value = value
        if type(value) in SIMPLE:
            body = repr(value).encode("utf-8", "backslashreplace")
            if len(body) <= 65536:
                self.output.before_frame()
                self.wire.send(
                    {
                        "t": "display",
                        "id": self.running,
                        "kind": "result",
                        "parts": [{"mime": "text/plain", "len": len(body)}],
                        "metadata": {},
                    },
                    body,
                )
                return
        self.displays().result(value)

    def displays(self):
        if self._shows is None:
            self._shows = need("display").Displays(self)
        return self._shows

    def display(self, *objects, **options):
        """Shows objects. With `display_id` (True or a name) returns a handle that can update it."""
        return self.displays().display(*objects, **options)

    def _describe(self, failure, name, delivered):
        """The error in words. Its own methods may fail or take long: an interrupt ends that."""
        limit = min(int(self.options.get("max_traceback_chars", 200_000)), MAX_TRACEBACK)
        describe = need("failure").describe
        for _ in range(2):
            try:
                return self._as_user(
                    undisturbed, describe, failure, name, self.sources, limit, delivered
                )
            except BaseException as error:
                # Once more: the interrupt of a cell that just ended is no reason to lose its error.
                self.interrupts.hold = 1
                reason = type(error).__name__
        return {
            "name": type(failure).__name__,
            "message": "its description failed with " + reason,
            "traceback": "",
        }

    def _is_delivered(self, failure):
        """Whether it is the very exception that our handler raised (or one raised because of it)."""
        delivered = self.interrupts.raised
        for _ in range(10):
            if not isinstance(failure, KeyboardInterrupt) or delivered is None:
                return False
            if failure is delivered:
                return True
            failure = failure.__cause__ or failure.__context__
        return False

    def _leave_child(self, failure):
        """A process that the cell forked came to the cell's end: it must not answer as well."""
        code = 0
        try:
            if isinstance(failure, SystemExit):
                code = failure.code if isinstance(failure.code, int) else int(failure.code is not None)
            elif failure is not None:
                code = 1
                sys.stderr.write(self._describe(failure, "", False)["traceback"])
            self.output.flush()
        finally:
            _exit(code & 255)

    # Awaiting.

    def _await(self, coroutine):
        """Runs a cell's coroutine on the one event loop that all cells share."""
        asyncio = self._import_asyncio()
        loop = self.loop
        if loop is None or loop.is_closed():
            loop = self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        before = asyncio.all_tasks(loop)
        task = loop.create_task(coroutine)
        try:
            return self._run_loop(loop, task, _loop_files(asyncio))
        except KeyboardInterrupt:
            raise
        except asyncio.CancelledError as error:
            if not self.interrupts.cancelling:
                raise
            raise self.interrupts.instance().with_traceback(error.__traceback__) from None
        finally:
            if self.interrupts.seen and not loop.is_closed() and not loop.is_running():
                self._cancel_tasks(asyncio, loop, asyncio.all_tasks(loop) - before)

    def _import_asyncio(self):
        # Whole: an import that an interrupt breaks off leaves a package that never works again.
        interrupts = self.interrupts
        main = get_ident() == interrupts.main
        interrupts.hold += main
        try:
            import asyncio
        finally:
            interrupts.hold -= main
        interrupts.check()
        return asyncio

    def _run_loop(self, loop, task, is_loop_file):
        interrupts = self.interrupts
        if get_ident() == interrupts.main:
            interrupts.awaiting = (loop, task, Cells._run_loop.__code__, is_loop_file)
        try:
            return loop.run_until_complete(task)
        finally:
            interrupts.awaiting = None

    def _cancel_tasks(self, asyncio, loop, tasks):
        """An interrupt ends all that the cell began; what earlier cells began goes on."""
        tasks = [task for task in tasks if not task.done()]
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        _, left = loop.run_until_complete(asyncio.wait(tasks, timeout=CANCEL_SECONDS))
        if left:
            self.warn("%d tasks did not end when cancelled" % len(left))


def _loop_files(asyncio):
    directory = os.path.dirname(asyncio.__file__) + "/"
    selectors = os.path.dirname(os.path.dirname(asyncio.__file__)) + "/selectors.py"

    def is_loop_file(name):
        return name.startswith(directory) or name == selectors

    return is_loop_file


def _suppressed(text, expression):
    """Whether a `;` follows the last expression (comments and closing parentheses aside)."""
    if ";" not in text:
        return False
    lines = text.split("\n")
    line = lines[expression.end_lineno - 1].encode("utf-8")[expression.end_col_offset :]
    rest = [line.decode("utf-8", "replace")] + lines[expression.end_lineno :]
    for line in rest:
        line = line.lstrip(") \t\r\f\\")
        if line.startswith(";"):
            return True
        if line and not line.startswith("#"):
            return False
    return False


def _no_debugger(*arguments, **options):
    raise RuntimeError("breakpoint() needs a terminal to talk to, and a cell has none")


def _clean_main():
    """A `__main__` without a file or a spec: a spawned process must not run the worker again."""
    main = type(sys)("__main__")
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    return main


def serve(directory):
    """Serves the wire until the supervisor says shutdown or goes away."""
    os.environ.setdefault("MPLBACKEND", "agg")
    sys.argv = [""]
    sys.path.insert(0, "")
    Cells(directory).serve()
