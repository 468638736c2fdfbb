"""What must be told to libraries of the user's choice, once they are imported.

Nothing here imports a library: a finder on `sys.meta_path` sees the import that user code makes
and adds to the module when it has run.
"""

import sys
from _thread import get_ident

_modules = sys.modules


class Interop:
    """The finder, and what it adds to which module."""

    def __init__(self, cells):
        self.cells = cells
        self.linecache = None
        # Idents of the threads that ask the other finders just now.
        self.searching = set()
        self.after = {
            "linecache": self._linecache,
            "inspect": self._inspect,
            "multiprocessing.spawn": self._spawn,
            "matplotlib.pyplot": self._pyplot,
            "IPython.core.display_functions": self._ipython,
        }
        for name in list(self.after):
            if name in _modules:
                self._add(name, _modules[name])
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name not in self.after or get_ident() in self.searching:
            return None
        self.searching.add(get_ident())
        try:
            for finder in list(sys.meta_path):
                if finder is self:
                    continue
                find = getattr(finder, "find_spec", None)
                spec = find and find(name, path, target)
                if spec is not None:
                    break
            else:
                return None
        finally:
            self.searching.discard(get_ident())
        loader = spec.loader
        run = getattr(loader, "exec_module", None)
        if run is None:
            return spec

        def exec_module(module):
            run(module)
            self._add(name, module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            # A frozen or built-in module's loader is a class: it is given an instance of its own.
            spec.loader = _Loader(loader, exec_module)
        return spec

    def _add(self, name, module):
        try:
            self.after[name](module)
        except Exception as error:
            self.cells.wire.log("warn", "could not prepare %s: %s" % (name, error))

    # Sources of cells.

    def publish_source(self, name, text):
        if self.linecache is not None:
            self.linecache[name] = (len(text), None, text.splitlines(True), name)

    def forget_source(self, name):
        if self.linecache is not None:
            self.linecache.pop(name, None)

    def _linecache(self, module):
        self.linecache = module.cache
        for name, text in self.cells.sources.items():
            self.publish_source(name, text)

    def _inspect(self, module):
        """`inspect.getsource` of a class of `__main__` looks for a file; it gets the cell instead."""
        usual = module.getfile

        def getfile(object):
            try:
                return usual(object)
            except (OSError, TypeError):
                if isinstance(object, type) and object.__module__ == "__main__":
                    cell = need("spawn").cell_of_class(object, self.cells.sources)
                    if cell is not None:
                        return cell
                raise

        getfile.__doc__ = usual.__doc__
        module.getfile = getfile

    # Processes.

    def _spawn(self, module):
        """A spawned process gets what the cells defined, as it would from a program's file."""
        usual = module.get_preparation_data

        def get_preparation_data(name):
            data = usual(name)
            if "init_main_from_path" not in data and "init_main_from_name" not in data:
                path = need("spawn").main_program(self.cells)
                if path is not None:
                    data["init_main_from_path"] = path
            return data

        module.get_preparation_data = get_preparation_data

    # Displays.

    def _pyplot(self, module):
        def show(*args, **kwargs):
            """Shows the open figures now, and closes them."""
            self.cells.displays().figures(at_end=False)

        module.show = show

    def _ipython(self, module):
        displays = self.cells.displays()
        module.display = displays.display
        module.update_display = displays.update_display
        module.publish_display_data = displays.publish
        module.clear_output = displays.clear_output


class _Loader:
    def __init__(self, loader, exec_module):
        self._loader = loader
        self.exec_module = exec_module

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        create = getattr(self._loader, "create_module", None)
        return create(spec) if create else None
