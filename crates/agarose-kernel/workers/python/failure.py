"""Errors of a cell as bounded text: the user's frames, without the worker's.

The usual error is formatted by the standard library. One that would make it build something huge
(a message of megabytes, thousands of frames or of chained errors) is formatted here, piece by
piece, so that the text is bounded while it is made and not only afterwards.
"""

import linecache
import traceback

MAX_MESSAGE = 10_000
MAX_NAME = 1_000
MAX_CHAIN = 20
MAX_FRAMES = 200
# Of a traceback with more frames than that, so many are shown, half of them from its end.
SHOWN_FRAMES = 40
MAX_LINE = 500

_directory = __file__.rpartition("/")[0] + "/"
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


def describe(error, cell, sources, limit, interrupted=False):
    """`error` as the result frame says it: name, message, traceback, line, exit."""
    chain = _chain(error)
    for one in chain:
        try:
            one.__traceback__ = _without_worker(one.__traceback__, sources)
        except Exception:
            pass
    # What the cell did to linecache must not cost the traceback its lines.
    try:
        for name, text in sources.items():
            if name not in linecache.cache:
                linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    except Exception:
        pass
    described = {"name": _name(error), "message": _message(error)}
    try:
        text = _usual(error) if _is_modest(chain) else None
    except Exception:
        text = None
    if text is None:
        text = _bounded(chain, sources)
    described["traceback"] = _clean(cut(text, limit))
    line = None
    if not interrupted:
        # An error that a task passed on may have its frames in the one it was made from.
        line = next(filter(None, (_line(one, cell) for one in chain)), None)
    if line is not None:
        described["line"] = line
    if isinstance(error, SystemExit):
        described["exit"] = True
    return described


def cut(text, limit):
    """`text`, or its head and tail around a marker that says how much is missing."""
    if len(text) <= limit:
        return text
    marker = "\n[… %d characters left out …]\n"
    keep = max(limit - len(marker) - 12, 0)
    head = keep // 2
    tail = keep - head
    return text[:head] + marker % (len(text) - keep) + (text[-tail:] if tail else "")


def _clean(text):
    """`text` without lone surrogates, which the wire cannot say."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _name(error):
    kind = type(error)
    name = getattr(kind, "__qualname__", None)
    module = getattr(kind, "__module__", None)
    if not isinstance(name, str):
        name = "exception"
    if isinstance(module, str) and module not in ("builtins", "__main__"):
        name = module + "." + name
    return _clean(cut(name, MAX_NAME))


def _text(error):
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"


def _message(error):
    if isinstance(error, SystemExit):
        code = error.code
        text = "" if code is None else code if isinstance(code, str) else _text(error)
    elif isinstance(error, SyntaxError) and isinstance(error.msg, str):
        text = error.msg
    else:
        text = _text(error)
    return _clean(cut(text, MAX_MESSAGE))


def _chain(error):
    """The error and what it is chained to, in the order of the standard traceback's reversal."""
    chain = []
    seen = set()
    while error is not None and id(error) not in seen and len(chain) <= MAX_CHAIN:
        chain.append(error)
        seen.add(id(error))
        if error.__cause__ is not None:
            error = error.__cause__
        elif not error.__suppress_context__:
            error = error.__context__
        else:
            error = None
    return chain


def _without_worker(tb, sources):
    """The traceback without the worker's frames, and the event loop's that it ran the cell in."""
    frames = []
    hidden = False
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if name.startswith(_directory) or name == "<frozen _sitebuiltins>":
            hidden = True
        else:
            frames.append(tb)
        tb = tb.tb_next
    if not hidden:
        return frames[0] if frames else None
    first = next((at for at, one in enumerate(frames) if one.tb_frame.f_code.co_filename in sources), 0)
    frames = frames[first:]
    kind = None
    for one in reversed(frames):
        kind = type(one)(kind, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kind


def _line(error, cell):
    """The line of this cell that was running; of a cell that does not parse, the line that fails."""
    if isinstance(error, SyntaxError) and error.filename == cell and error.__traceback__ is None:
        return error.lineno
    line = None
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == cell:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line


def _is_modest(chain):
    """Whether the standard formatter's work on it is bounded."""
    if len(chain) > MAX_CHAIN:
        return False
    frames = 0
    for error in chain:
        if len(_text(error)) > MAX_MESSAGE:
            return False
        if isinstance(error, SyntaxError) and isinstance(error.text, str) and len(error.text) > MAX_LINE:
            return False
        notes = getattr(error, "__notes__", None)
        if notes is not None and (len(notes) > 20 or any(len(str(note)) > MAX_MESSAGE for note in notes)):
            return False
        if len(getattr(error, "exceptions", ())) > 50:
            return False
        tb = error.__traceback__
        while tb is not None:
            frames += 1
            line = linecache.getline(tb.tb_frame.f_code.co_filename, tb.tb_lineno)
            if len(line) > MAX_LINE or frames > MAX_FRAMES:
                return False
            tb = tb.tb_next
    return True


def _usual(error):
    return "".join(traceback.TracebackException(type(error), error, error.__traceback__).format())


def _bounded(chain, sources):
    parts = []
    if len(chain) > MAX_CHAIN:
        parts.append("[… earlier exceptions of the chain left out …]\n\n")
    for index in range(min(len(chain), MAX_CHAIN) - 1, -1, -1):
        one = chain[index]
        parts.append(_one(one, sources))
        if index:
            parts.append(_CAUSE if chain[index - 1].__cause__ is one else _CONTEXT)
    return "".join(parts)


def _source_line(code, number, sources):
    try:
        if code.co_filename in sources:
            return sources[code.co_filename].splitlines()[number - 1]
        return linecache.getline(code.co_filename, number)
    except Exception:
        return ""


def _one(error, sources):
    frames = []
    tb = error.__traceback__
    while tb is not None:
        frames.append((tb.tb_frame.f_code, tb.tb_lineno))
        tb = tb.tb_next
    lines = []
    if frames:
        lines.append("Traceback (most recent call last):\n")
    half = SHOWN_FRAMES // 2
    for index, (code, number) in enumerate(frames):
        if len(frames) > SHOWN_FRAMES and half <= index < len(frames) - half:
            if index == half:
                lines.append("  [… %d frames left out …]\n" % (len(frames) - 2 * half))
            continue
        lines.append('  File "%s", line %s, in %s\n' % (code.co_filename, number, code.co_name))
        source = _source_line(code, number, sources)[: MAX_LINE * 4].strip()
        if source:
            lines.append("    " + cut(source, MAX_LINE) + "\n")
    if isinstance(error, SyntaxError) and error.filename is not None:
        lines.append('  File "%s", line %s\n' % (error.filename, error.lineno))
        if isinstance(error.text, str):
            lines.append("    " + cut(error.text.strip(), MAX_LINE) + "\n")
    message = _message(error)
    lines.append(_name(error) + (": " + message if message else "") + "\n")
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, list):
        lines.extend(cut(str(note), MAX_LINE) + "\n" for note in notes[:20])
    return "".join(lines)
