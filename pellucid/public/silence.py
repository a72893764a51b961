"""Running code we do not trust to be silent: whatever it prints, warns or logs is discarded.

A model that printed its rows would show them to whoever watches the console. Python's own streams and the two file
descriptors below them are both sent nowhere, since compiled code and logging handlers do not use `sys.stdout`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Discard all output of the code inside, also from compiled libraries."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    saved: list[tuple[int, int]] = []
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        for descriptor in (1, 2):
            with contextlib.suppress(OSError):
                saved.append((descriptor, os.dup(descriptor)))
                os.dup2(nowhere.fileno(), descriptor)
        try:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            for descriptor, copy in saved:
                os.dup2(copy, descriptor)
                os.close(copy)
