"""Objects as MIME bundles, and the figures that a cell left open.

Every frame is bounded here: a form that is too large is left out and the text says so.
"""

import os
import sys
from base64 import b64decode
from io import BytesIO
from json import dumps, loads
from _thread import get_ident

_failure = need("failure")

MAX_DISPLAYS = 10_000
MAX_CELL_BYTES = 256 << 20
MAX_TEXT = 1 << 20
MAX_FIGURES = 50
METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
    ("_repr_pdf_", "application/pdf"),
)

_getpid = os.getpid
_modules = sys.modules


class Displays:
    """Makes and sends the displays of the running cell."""

    def __init__(self, cells):
        self.cells = cells
        self.max_bytes = max(int(cells.options.get("max_display_bytes", 8 << 20)), 1024)
        self.cell = None
        self.count = self.bytes = self.dropped = 0
        self.names = 0
        self.shown_figures = {}

    def result(self, value):
        self._show(value, "result", None)

    def display(self, *objects, include=None, exclude=None, metadata=None, display_id=None, raw=False,
                transient=None, clear=False, **_):  # fmt: skip
        """Shows objects; with `display_id` (True or a name) returns a handle that can update it."""
        if display_id is True:
            self.names += 1
            display_id = "display-%d" % self.names
        if clear:
            self.clear_output(wait=True)
        for one in objects:
            if raw and isinstance(one, dict):
                self._send(one, metadata or {}, "display", display_id)
            else:
                self._show(one, "display", display_id, metadata)
        if display_id is not None:
            return Handle(self, str(display_id))
        return None

    def update_display(self, obj, *, display_id, **_):
        """Shows `obj` in place of what was displayed under that id."""
        self._show(obj, "update", display_id)

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_):
        """Shows a MIME bundle that the caller has made, as IPython's publish_display_data."""
        name = (transient or {}).get("display_id")
        self._send(data, metadata or {}, "update" if update else "display", name)

    def clear_output(self, wait=False):
        """Takes back what the cell has displayed so far; with `wait`, when the next display comes."""
        cells = self.cells
        if cells.running is not None and not self._is_stray():
            cells.output.before_frame()
            cells.wire.send({"t": "clear_output", "id": cells.running, "wait": bool(wait)})

    def figures(self, at_end):
        """Shows the figures that are open, in the order of their making, and closes them."""
        pyplot = _modules.get("matplotlib.pyplot")
        helpers = _modules.get("matplotlib._pylab_helpers")
        if pyplot is None or helpers is None:
            return
        managers = helpers.Gcf.get_all_fig_managers()
        for index, manager in enumerate(sorted(managers, key=lambda manager: manager.num)):
            figure = manager.canvas.figure
            try:
                if self.shown_figures.get(id(figure)) is figure and not figure.stale:
                    # The cell displayed it itself and has not changed it since.
                    continue
                if index < MAX_FIGURES:
                    self._send(*self._figure(figure), "display", None)
            except Exception as error:
                self.cells.warn("a figure could not be drawn: " + _failure.describe(
                    error, "", {}, 500)["message"])  # fmt: skip
            finally:
                pyplot.close(figure)
        if len(managers) > MAX_FIGURES:
            self.cells.warn(
                "%d figures were open; %d are shown and all are closed" % (len(managers), MAX_FIGURES)
            )
        self.shown_figures.clear()

    def _figure(self, figure):
        buffer = BytesIO()
        dpi = self.cells.options.get("figure_dpi") or 100
        figure.savefig(buffer, format="png", dpi=dpi, bbox_inches="tight")
        # Drawing marks it as changed; from here on only the cell's own changes do.
        figure.stale = False
        return {"text/plain": repr(figure), "image/png": buffer.getvalue()}, {}

    def _is_stray(self):
        cells = self.cells
        return cells.running is None or cells.output.is_stray(get_ident())

    def _show(self, value, kind, name, metadata=None):
        figure_type = getattr(_modules.get("matplotlib.figure"), "Figure", None)
        own = getattr(type(value), "_ipython_display_", None)
        if own is not None and kind != "update":
            own(value)
            return
        if figure_type is not None and isinstance(value, figure_type):
            bundle, found = self._figure(value)
        else:
            bundle, found = self._bundle(value)
        if metadata:
            found.update(metadata)
        self._send(bundle, found, kind, name)
        if figure_type is not None and isinstance(value, figure_type):
            self.shown_figures[id(value)] = value

    def _bundle(self, value):
        bundle, metadata = {}, {}
        kind = type(value)
        if not isinstance(value, type):
            make = getattr(kind, "_repr_mimebundle_", None)
            if make is not None:
                try:
                    made = make(value)
                except Exception as error:
                    made = self._complain(kind, "_repr_mimebundle_", error)
                if isinstance(made, tuple) and len(made) == 2:
                    made, found = made
                    if isinstance(found, dict):
                        metadata.update(found)
                if isinstance(made, dict):
                    bundle.update(made)
            for method, mime in METHODS:
                make = getattr(kind, method, None)
                if make is None or mime in bundle:
                    continue
                try:
                    made = make(value)
                except Exception as error:
                    made = self._complain(kind, method, error)
                if isinstance(made, tuple) and len(made) == 2:
                    made, found = made
                    if found:
                        metadata[mime] = found
                if made is not None:
                    bundle[mime] = made
        if "text/plain" not in bundle:
            bundle["text/plain"] = repr(value)
        return bundle, metadata

    def _complain(self, kind, method, error):
        message = _failure.describe(error, "", {}, 500)
        self.cells.warn(
            "%s of %s failed: %s: %s" % (method, kind.__name__, message["name"], message["message"])
        )

    def _send(self, bundle, metadata, kind, name):
        cells = self.cells
        if _getpid() != cells.pid or self._is_stray():
            text = bundle.get("text/plain")
            sys.stdout.write((text if isinstance(text, str) else "<display>") + "\n")
            return
        if self.cell != cells.running:
            self.cell = cells.running
            self.count = self.bytes = self.dropped = 0
            self.shown_figures.clear()
        forms = []
        too_large = []
        room = self.max_bytes
        for mime, data in bundle.items():
            if data is None or not isinstance(mime, str):
                continue
            data = _bytes(mime, data, min(MAX_TEXT, self.max_bytes // 2))
            if data is None:
                continue
            if len(data) > room:
                too_large.append("%s (%d bytes)" % (mime[:100], len(data)))
                continue
            room -= len(data)
            forms.append((mime[:200], data))
        if too_large:
            note = ("[too large to show: " + ", ".join(too_large) + "]").encode("utf-8", "backslashreplace")
            plain = dict(forms).get("text/plain", b"")
            if len(plain) > 2000 or not plain:
                plain = plain[:2000].decode("utf-8", "ignore").encode()
            forms = [form for form in forms if form[0] != "text/plain"]
            forms.append(("text/plain", (plain + b"\n" if plain else b"") + note))
        size = sum(len(data) for _, data in forms)
        self.count += 1
        self.bytes += size
        if self.count > MAX_DISPLAYS or self.bytes > MAX_CELL_BYTES:
            if not self.dropped:
                cells.warn(
                    "the cell displayed more than %d things or %d bytes; the rest is left out"
                    % (MAX_DISPLAYS, MAX_CELL_BYTES)
                )
            self.dropped += 1
            return
        head = {
            "t": "display",
            "id": cells.running,
            "kind": kind,
            "parts": [{"mime": mime, "len": len(data)} for mime, data in forms],
            "metadata": _plain(metadata),
        }
        if name is not None:
            head["display_id"] = str(name)[:200]
        cells.output.before_frame()
        cells.wire.send(head, b"".join(data for _, data in forms))
        cells.output.after_frame()


class Handle:
    """What `display(…, display_id=…)` returns: it can show something else in the same place."""

    def __init__(self, displays, display_id):
        self._displays = displays
        self.display_id = display_id

    def display(self, obj, **options):
        self._displays.display(obj, display_id=self.display_id, **options)

    def update(self, obj, **options):
        self._displays.update_display(obj, display_id=self.display_id, **options)

    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % self.display_id


def _bytes(mime, data, max_text):
    """The raw bytes of one form; images are raw on the wire and often base64 in bundles."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if isinstance(data, (dict, list)) or (mime.endswith("json") and not isinstance(data, str)):
        try:
            return dumps(data, default=repr).encode("utf-8", "replace")
        except (TypeError, ValueError, RecursionError):
            return None
    if not isinstance(data, str):
        return None
    if mime.startswith(("image/", "application/pdf")) and mime != "image/svg+xml":
        try:
            return b64decode(data)
        except ValueError:
            return None
    if mime == "text/plain" and len(data) > max_text // 4:
        data = _failure.cut(data, max_text // 4)
    return data.encode("utf-8", "backslashreplace")


def _plain(metadata):
    """Metadata as the wire can say it: JSON of bounded size, or nothing."""
    if not metadata:
        return {}
    try:
        text = dumps(metadata, allow_nan=False, default=repr)
        return loads(text) if 2 < len(text) <= 65536 else {}
    except (TypeError, ValueError, RecursionError):
        return {}
