"""What a spawned process is told of `__main__`, so that it can unpickle what cells defined.

A program's file is run again in a spawned process. Cells have none and must not all be run again,
so a program is made of them: their imports, functions and classes, from their own sources and at
their own lines, and plain values that the functions may read. It lies in a memory file of this
process, which leaves nothing behind.
"""

import ast
import os
import pickle

MAX_VALUE = 256 << 10
MAX_VALUES = 4 << 20
PLAIN = (int, float, complex, bool, str, bytes, bytearray, tuple, list, dict, set, frozenset, range, type(None))

_PROGRAM = """\
def _define(cells, values):
    import linecache, pickle
    from _ast import Module, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST
    namespace = globals()
    namespace.pop("_define")
    import builtins
    if not hasattr(builtins, "display"):
        builtins.display = print
    for name, blob in values.items():
        try:
            namespace[name] = pickle.loads(blob)
        except Exception:
            pass
    for name, (text, kept, flags) in cells.items():
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        flags |= PyCF_ALLOW_TOP_LEVEL_AWAIT
        body = compile(text, name, "exec", PyCF_ONLY_AST | flags, True).body
        for index in kept:
            try:
                exec(compile(Module([body[index]], []), name, "exec", flags, True), namespace)
            except Exception:
                # A name that is missing is reported where it is used.
                pass
"""

# A pool starts its processes one after the other, and each opens its program when it gets to it.
MAX_PROGRAMS = 64
_programs = {}


def main_program(cells):
    """The path of a program that defines in `__main__` what the cells defined, or None."""

    namespace = cells.namespace
    kept = {}
    for name, text in list(cells.sources.items()):
        indices = _definitions(text, name, namespace)
        if indices:
            kept[name] = (text, indices, cells.future_flags)
    values = {}
    room = MAX_VALUES
    for name, value in list(namespace.items()):
        if isinstance(value, PLAIN) and type(value) in PLAIN and not name.startswith("__"):
            if isinstance(value, (str, bytes, bytearray)) and len(value) > MAX_VALUE:
                continue
            if isinstance(value, (list, tuple, dict, set, frozenset)) and len(value) > 10_000:
                continue
            try:
                blob = pickle.dumps(value, 4)
            except Exception:
                continue
            # What refers to a class of the cells cannot be loaded before that class exists.
            if len(blob) <= min(MAX_VALUE, room) and b"__main__" not in blob:
                values[name] = blob
                room -= len(blob)
    if not kept and not values:
        return None
    text = _PROGRAM + "\n_define(%r, %r)\n" % (kept, values)
    key = (len(text), hash(text))
    descriptor = _programs.get(key)
    if descriptor is None:
        descriptor = os.memfd_create("agarose-main", os.MFD_CLOEXEC)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
        _programs[key] = descriptor
        if len(_programs) > MAX_PROGRAMS:
            os.close(_programs.pop(next(iter(_programs))))
    return "/proc/%d/fd/%d" % (os.getpid(), descriptor)


def _definitions(text, name, namespace):
    try:
        body = compile(text, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [index for index, node in enumerate(body) if _defines(node, namespace)]


def _defines(node, namespace):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
        return True
    if isinstance(node, ast.Try):
        parts = node.body + node.orelse + node.finalbody
        parts += [part for handler in node.handlers for part in handler.body]
        return all(isinstance(part, ast.Pass) or _defines(part, namespace) for part in parts)
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        # `Point = namedtuple(…)`, `f = lambda …`: made by a statement, yet a definition.
        value = namespace.get(node.targets[0].id)
        made_here = getattr(value, "__module__", None) == "__main__"
        return made_here and isinstance(value, (type, type(_defines)))
    return False


def cell_of_class(kind, sources):
    """The name of the cell whose source defines the class, or None."""
    for value in vars(kind).values():
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        if code is not None and code.co_filename in sources:
            return code.co_filename
    wanted = kind.__qualname__.rpartition(".")[2]
    for name, text in reversed(list(sources.items())):
        if wanted in text:
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError):
                continue
            if any(isinstance(node, ast.ClassDef) and node.name == wanted for node in ast.walk(tree)):
                return name
    return None
