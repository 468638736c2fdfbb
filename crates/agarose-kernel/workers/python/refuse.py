"""IPython's magics, refused with what to write instead."""

import importlib.util
import re

_MAGIC = re.compile(r"\s*(%{1,2}[a-zA-Z_]\w*|!{1,2}\s*[^\s=]|\?{1,2}\s*[a-zA-Z_])")
_ASSIGNED = re.compile(r"\s*[a-zA-Z_][\w.,\s]*=\s*(%[a-zA-Z_]\w*|!\s*[^\s=])")
_QUESTION = re.compile(r"\s*([a-zA-Z_][\w.]*)\s*\?{1,2}\s*$")

_SHELL = 'import subprocess and call subprocess.run(%s, shell=True, check=True)'
_INSTEAD = {
    "pip": 'import subprocess, sys and call subprocess.run([sys.executable, "-m", "pip", %s], check=True)',
    "conda": 'import subprocess and call subprocess.run(["conda", %s], check=True)',
    "mamba": 'import subprocess and call subprocess.run(["mamba", %s], check=True)',
    "time": "take time.perf_counter() before and after; the result also tells the cell's wall and CPU time",
    "timeit": "call timeit.timeit(…)",
    "cd": "call os.chdir(…)",
    "pwd": "call os.getcwd()",
    "ls": "call os.listdir()",
    "env": "read and set os.environ",
    "matplotlib": "leave it out: figures are shown when the cell ends",
    "load_ext": "import the package and call its functions",
    "autoreload": "call importlib.reload(module)",
    "run": "call runpy.run_path(…)",
    "who": "call dir()",
    "whos": "call dir()",
    "reset": "restart the kernel",
    "writefile": "write the file with open(…, 'w')",
    "capture": "use contextlib.redirect_stdout",
    "debug": "read the traceback; there is no terminal for a debugger",
}  # fmt: skip
_SHELLS = frozenset(("bash", "sh", "script", "system", "sx", "cmd"))


def magic(text, name, error):
    """The error to raise for a cell that is IPython's language, or None if it is not."""
    lines = text.split("\n")
    found = _find(lines, error, text, name)
    if found is None:
        return None
    number, what, instead = found
    line = lines[number - 1]
    message = "%s is an IPython magic, and this kernel runs plain Python. Instead, %s." % (what, instead)
    if importlib.util.find_spec("IPython") is not None:
        message += " Or start the daemon with --ipython auto."
    column = len(line) - len(line.lstrip()) + 1
    return SyntaxError(message, (name, number, column, line[:500]))


def _find(lines, error, text, name):
    first = next((number for number, line in enumerate(lines, 1) if line.strip()), None)
    if first is not None and lines[first - 1].lstrip().startswith("%%"):
        return (first, *_explain(lines[first - 1].strip()))
    for number, line in enumerate(lines[: error.lineno or len(lines)], 1):
        match = _MAGIC.match(line)
        assigned = _ASSIGNED.match(line)
        question = _QUESTION.match(line)
        if not (match or assigned or question):
            continue
        # A line like it inside a string or a bracket is none: what precedes must be whole.
        if number != error.lineno and not _is_whole("\n".join(lines[: number - 1]), name):
            continue
        if assigned and not match:
            return (number, *_explain(line[assigned.start(1) :].strip()))
        if match:
            return (number, *_explain(line.strip()))
        return (number, "`%s?`" % question.group(1), "call help(%s)" % question.group(1))
    return None


def _is_whole(text, name):
    try:
        compile(text, name, "exec", 0x2400, True)
    except SyntaxError as error:
        # A block whose body is the magic lacks only that body.
        return "expected an indented block" in str(error.msg)
    except ValueError:
        return False
    return True


def _explain(line):
    shown = "`%s`" % (line if len(line) <= 60 else line[:59] + "…")
    if line.startswith("?"):
        return shown, "call help(%s)" % line.strip("? ")
    if line.startswith("!"):
        return shown, _SHELL % _quoted(line.lstrip("! "))
    word, _, rest = line.lstrip("%").partition(" ")
    if word in _SHELLS:
        return shown, _SHELL % ("the script" if line.startswith("%%") else _quoted(rest))
    instead = _INSTEAD.get(word, "write it in plain Python")
    if "%s" in instead:
        instead %= ", ".join(_quoted(part) for part in rest.split())
    return shown, instead


def _quoted(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')
