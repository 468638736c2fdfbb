"""The C library's own streams, which native code prints through."""

import ctypes

_flush = ctypes.CDLL(None).fflush


def flush():
    """Writes out what stdio holds back, so that it is part of the cell that printed it."""
    _flush(None)
