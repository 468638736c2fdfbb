"""What a cell did to the names of its namespace, as far as it can be known for certain and cheaply.

A value is known by a fingerprint of its whole content, and only when that content is all there is
to it: numbers and strings, tuples of them, lists, dicts and sets of them that nothing but their
name refers to (the reference count says so; what is shared could be changed through another name),
and functions without closures. Two equal fingerprints of one kernel mean that no code can tell the
values apart. Everything else is "not known", never "unchanged".

Fingerprints are keyed with a secret of this process, so that the log does not betray a password to
whoever tries them all.
"""

import sys
from marshal import dumps
from os import urandom

MAX_NAMES = 4000
MAX_REPORTED = 512
# What one cell's end may look at, over all names.
MAX_ITEMS = 1500
MAX_BYTES = 256 << 10
MAX_DEPTH = 6
# Larger values are not kept alive just to be compared by identity.
MAX_HELD = 4096

SCALARS = frozenset((int, float, complex, bool, str, bytes, type(None)))
SIZED = frozenset((str, bytes))
FROZEN = frozenset((tuple, frozenset))
OWNED = frozenset((list, dict, set))
Function = type(need)

_count = sys.getrefcount
_size = sys.getsizeof


class Unknown(Exception):
    """The value is more than its content, or too large."""


def _alone():
    """What the reference count says of a value that its container and a local variable refer to."""
    for item in [[]]:
        return _count(item)


# Without the lock that the counts rely on they say nothing.
ALONE = _alone() if getattr(sys, "_is_gil_enabled", lambda: True)() else -1


class Names:
    """The names as they were after the last cell."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.key = urandom(16)
        self.number = 0
        # Name -> its fingerprint (None: not known), and the value itself where identity is enough.
        self.seen = {}
        self.held = {}
        self.codes = {}
        self.items = self.bytes = 0

    def end(self):
        """The result's field: the names that are not what they were after the cell before."""
        number = self.number
        self.number += 1
        namespace = self.namespace
        if len(namespace) > MAX_NAMES:
            self.seen.clear()
            self.held.clear()
            return {}
        self.items, self.bytes = MAX_ITEMS, MAX_BYTES
        seen, held = self.seen, self.held
        known, unknown, unbound = {}, [], []
        for name in list(namespace):
            if type(name) is not str or (name.startswith("__") and name.endswith("__")):
                continue
            value = namespace[name]
            if name in held and held[name] is value:
                continue
            held.pop(name, None)
            try:
                print_ = self._fingerprint(name, value)
            except (Unknown, ValueError, RuntimeError, MemoryError):
                print_ = None
            if name not in seen or seen[name] != print_:
                seen[name] = print_
                if print_ is None:
                    unknown.append(name)
                else:
                    known[name] = print_
            value = None
        for name in [name for name in seen if name not in namespace]:
            del seen[name]
            held.pop(name, None)
            unbound.append(name)
        if len(known) + len(unknown) + len(unbound) > MAX_REPORTED:
            return {}
        report = {"number": number}
        for key, names in (("known", known), ("unknown", unknown), ("unbound", unbound)):
            if names:
                report[key] = names
        return {"names": report}

    def _fingerprint(self, name, value):
        kind = type(value)
        if kind in SCALARS:
            self._scalar(value)
            if _size(value) <= MAX_HELD:
                self.held[name] = value
        elif kind in FROZEN:
            self._frozen(value, MAX_DEPTH)
        elif kind in OWNED:
            # The namespace, the loop's variable, this parameter and its caller's copy of it.
            if _count(value) != PASSED:
                raise Unknown
            self._owned(value, MAX_DEPTH)
        elif kind is Function:
            return self._digest(self._function(value))
        else:
            raise Unknown
        return self._digest(dumps(value, 2))

    def _digest(self, content):
        return "%016x" % (hash(self.key + content) & 0xFFFFFFFFFFFFFFFF)

    def _scalar(self, value):
        self.items -= 1
        if type(value) in SIZED or type(value) is int:
            self.bytes -= _size(value)
        if self.items < 0 or self.bytes < 0:
            raise Unknown

    def _frozen(self, value, depth):
        for item in value:
            if type(item) in SCALARS:
                self._scalar(item)
            elif type(item) in FROZEN and depth:
                self._frozen(item, depth - 1)
            else:
                raise Unknown

    def _owned(self, value, depth):
        self.items -= 1
        if type(value) is dict:
            self._frozen(value, depth)
            value = value.values()
        for item in value:
            if type(item) in SCALARS:
                self._scalar(item)
            elif type(item) in FROZEN:
                self._frozen(item, depth)
            elif type(item) in OWNED and depth and _count(item) == ALONE:
                self._owned(item, depth - 1)
            else:
                raise Unknown

    def _function(self, value):
        if value.__closure__ is not None or value.__kwdefaults__ is not None or vars(value):
            raise Unknown
        if value.__globals__ is not self.namespace:
            raise Unknown
        defaults = value.__defaults__ or ()
        self._frozen(defaults, MAX_DEPTH)
        code = value.__code__
        known = self.codes.get(id(code))
        if known is None or known[0] is not code:
            if len(self.codes) >= MAX_NAMES:
                self.codes.clear()
            content = dumps(code, 2)
            self.bytes -= len(content)
            if self.bytes < 0:
                raise Unknown
            known = self.codes[id(code)] = (code, content)
        return b"function" + known[1] + dumps(defaults, 2)


class _Probe(Names):
    """Measures what the reference count says of a value that only its name refers to."""

    def _fingerprint(self, name, value):
        return _count(value)


def _passed():
    probe = _Probe({"name": []})
    probe.end()
    return probe.seen["name"] if ALONE > 0 else -1


PASSED = _passed()
