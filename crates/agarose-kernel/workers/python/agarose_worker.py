"""Entry of the Python worker: loads its modules out of reach of user code and serves the wire.

The modules are kept out of ``sys.modules`` and ``sys.path`` and run with builtins of their own,
so neither an import nor ``del builtins.len`` of a cell reaches them. Only this file is compiled
anew at each start (the interpreter does not cache the program it is given), so it stays short.
"""

import builtins
import sys

from _frozen_importlib_external import SourceFileLoader

_directory = sys.path.pop(0)
_builtins = dict(vars(builtins))
_loaded = {}


def need(name):
    """The worker's module of that name, loaded when it is first needed."""
    module = _loaded.get(name)
    if module is None:
        path = _directory + "/" + name + ".py"
        module = _loaded[name] = type(sys)("agarose." + name)
        module.__dict__.update(__builtins__=_builtins, __file__=path, need=need)
        exec(SourceFileLoader(module.__name__, path).get_code(module.__name__), module.__dict__)
    return module


need("cell").serve(_directory)
