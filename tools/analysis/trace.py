"""Runs a cell and records, in order, every read, binding and deletion of a global (CPython 3.11 and before
by settrace, 3.12 and later by sys.monitoring)."""

import dis
import sys

# Names that the compiler itself makes.
IMPLICIT = {"__doc__", "__annotations__"}

_names = {}


def _instructions(code):
    table = _names.get(code)
    if table is None:
        table = _names[code] = {i.offset: (i.opname, i.argval) for i in dis.get_instructions(code)}
    return table


def _event(frame, offset, events):
    code = frame.f_code
    op, name = _instructions(code).get(offset, (None, None))
    module = code.co_name == "<module>"
    # A class body begins by reading the module's name.
    if name in IMPLICIT or (name == "__name__" and op == "LOAD_NAME" and not module):
        return
    if op in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
        if op == "LOAD_GLOBAL" or module or name not in frame.f_locals:
            events("R", name)
    elif op == "STORE_GLOBAL" or (op == "STORE_NAME" and module):
        events("W", name)
    elif op == "DELETE_GLOBAL" or (op == "DELETE_NAME" and module):
        events("D", name)


def run(source, namespace, events, filename="<cell>"):
    """Runs the cell; `events(kind, name)` is called before each access takes place. Gives the error, if any."""
    code = compile(source, filename, "exec", dont_inherit=True)
    error = None
    if sys.version_info >= (3, 12):
        monitoring, tool = sys.monitoring, 3

        def instruction(code, offset):
            frame = sys._getframe(1)
            if frame.f_code is code and frame.f_globals is namespace:
                _event(frame, offset, events)

        monitoring.use_tool_id(tool, "trace")
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, instruction)
        monitoring.set_events(tool, monitoring.events.INSTRUCTION)
        try:
            exec(code, namespace)
        except BaseException as raised:
            error = raised
        finally:
            monitoring.set_events(tool, 0)
            monitoring.free_tool_id(tool)
        return error

    def trace(frame, event, _):
        if frame.f_globals is not namespace:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            _event(frame, frame.f_lasti, events)
        return trace

    sys.settrace(trace)
    try:
        exec(code, namespace)
    except BaseException as raised:
        error = raised
    finally:
        sys.settrace(None)
    return error
