"""Entry of the Python worker: loads its modules out of reach of user code and serves the wire.

The modules are kept out of ``sys.modules`` and ``sys.path`` and run with builtins of their own,
so neither an import nor ``del builtins.len`` of a cell reaches them. Only this file is compiled
anew at each start (the interpreter does not cache the program it is given), so it stays short.
"""

import builtins
import sys

from _frozen_importlib_external import SourceFileLoader

_directory = sys.path.pop(0)
_shared = vars(builtins)
_builtins = dict(_shared)
_modules = sys.modules
_path = list(sys.path)
_library = _modules["os"].__file__.rpartition("/")[0] + "/"
_exists = _modules["os"].path.exists
_loaded = {}


def undisturbed(function, *arguments):
    """Calls the function while the standard library sees the builtins that it was written for."""
    usual = dict(_shared)
    _shared.update(_builtins)
    try:
        return function(*arguments)
    finally:
        _shared.update(usual)


def need(name):
    """The worker's module of that name, loaded when it is first needed.

    A module of the workspace may be called like one of the standard library (`token.py`); what is
    loaded here must not get that one, so the path is the interpreter's own for the moment.
    """
    return _loaded.get(name) or undisturbed(_load, name)


def _load(name):
    path, usual = sys.path, list(sys.path)
    path[:] = _path
    shadows = {key: value for key, value in list(_modules.items()) if _is_shadow(key, value)}
    for key in shadows:
        del _modules[key]
    try:
        file = _directory + "/" + name + ".py"
        module = type(sys)("agarose." + name)
        module.__dict__.update(__builtins__=_builtins, __file__=file, need=need, undisturbed=undisturbed)
        exec(SourceFileLoader(module.__name__, file).get_code(module.__name__), module.__dict__)
        _loaded[name] = module
        return module
    finally:
        path[:] = usual
        _modules.update(shadows)


def _is_shadow(name, module):
    file = getattr(module, "__file__", None)
    if "." in name or not isinstance(file, str) or file.startswith(_library):
        return False
    return _exists(_library + name + ".py") or _exists(_library + name + "/__init__.py")


need("cell").serve(_directory)
