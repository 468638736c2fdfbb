"""IPython's magics, for kernels that want them: a shell that lives in the cells' own namespace.

The shell is made when the first magic is used, and only rewrites source and runs magics; cells
still run as all cells do.
"""

import sys

_shell = None


def is_installed():
    """Whether this interpreter has IPython. Imports nothing of it."""
    from importlib.util import find_spec

    try:
        return find_spec("IPython") is not None
    except (ImportError, ValueError):
        return False


def rewrite(text, cells):
    """The cell as plain Python that calls the shell for its magics."""
    return shell(cells).transform_cell(text)


def shell(cells):
    """The one shell of this kernel."""
    global _shell
    if _shell is None:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        # No history: its database would be a file of the user's that two kernels write.
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "NoColor"
        config.InteractiveShell.cache_size = 0
        config.InteractiveShell.show_rewritten_input = False
        hooks = sys.excepthook, sys.displayhook
        _shell = InteractiveShell.instance(
            config=config, user_module=cells.main, user_ns=cells.namespace
        )
        sys.excepthook, sys.displayhook = hooks
        _shell.display_pub = _Publisher(cells.displays(), _shell.display_pub)
        _shell.displayhook = cells.displays().result
    return _shell


class _Publisher:
    """What the shell publishes goes out as displays of the running cell."""

    def __init__(self, displays, usual):
        self.publish = displays.publish
        self.clear_output = displays.clear_output
        self.is_publishing = False
        self._usual = usual

    def __getattr__(self, name):
        return getattr(self._usual, name)
