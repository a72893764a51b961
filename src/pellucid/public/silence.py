"""Running code we do not trust to be silent: whatever it prints, warns or logs is discarded.

A model that printed its rows would show them to whoever watches the console, the notebook or the log. There is one console for
the whole process, so silence is for the whole process too: while anybody is inside, nobody is heard. What it cannot stop is said
in docs/threat-model.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

if sys.platform != "win32":
    import fcntl

Undo = Callable[[], object]


class Shared:
    """A change of the whole process while anybody is inside: the first to enter makes it, the last to leave takes it back.

    `change` is given a function to say how each of its steps is taken back, before it is taken; to do so twice does no harm.
    A process that is forked meanwhile stays changed, unless it is forked inside and leaves.
    """

    def __init__(self, change: Callable[[Callable[[Undo], None]], None]):
        self._change = change
        self._inside: set[object] = set()
        self._undo: list[Undo] = []
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        one = object()
        try:
            try:
                self._enter(one)
                yield
            finally:
                self._leave(one)
        finally:
            # Once more, in case an interrupt has stopped the first.
            self._leave(one)

    def _enter(self, one: object) -> None:
        with self._lock:
            self._inside.add(one)
            if len(self._inside) == 1:
                self._change(self._undo.append)

    def _leave(self, one: object) -> None:
        with self._lock:
            self._inside.discard(one)
            while self._undo and not self._inside:
                with contextlib.suppress(Exception):
                    self._undo[-1]()
                self._undo.pop()


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Discard all output of the code inside, also from compiled libraries."""
    with unwarned(), _unheard():
        yield


def _without_warnings(undo: Callable[[Undo], None]) -> None:
    # Recorded and dropped: whoever collects warnings outside gets none, even if the code inside turns them on again.
    caught = warnings.catch_warnings(record=True)
    undo(lambda: caught.__exit__(None, None, None))
    caught.__enter__()
    warnings.simplefilter("ignore")


def _without_output(undo: Callable[[Undo], None]) -> None:
    streams = {id(stream): stream for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) if stream is not None}
    flush = functools.partial(_flush, list(streams.values()))
    # What was printed before is shown.
    flush()
    with open(os.devnull, "wb", buffering=0) as nowhere:
        for descriptor in (1, 2):
            if nowhere.fileno() != descriptor:
                _redirect(descriptor, nowhere.fileno(), undo)
    # A notebook's stream has no descriptor, and the code inside may have kept it from before.
    for stream in streams.values():
        _mute(stream, undo)
        with contextlib.suppress(Exception):
            _mute(stream.buffer, undo)
    for descriptor, names in ((1, ("stdout", "__stdout__")), (2, ("stderr", "__stderr__"))):
        stream = _discarding(descriptor)
        for name in names:
            _swap(sys, name, stream, undo)
    for owner, name in ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook")):
        _swap(owner, name, _nothing, undo)
    # Not by logging.disable: it is a habit of libraries to disable logging and enable it again.
    for name in ("handle", "callHandlers"):
        _swap(logging.Logger, name, _nothing, undo)
    # Taken back first: what waits in buffers goes where it was meant to go.
    undo(flush)


def _nothing(*_: object, **__: object) -> None:
    """In place of whatever would show something."""


class _Discarding(io.RawIOBase):
    """Bytes that go nowhere."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        return memoryview(content).nbytes

    def fileno(self) -> int:
        return self._descriptor


def _discarding(descriptor: int) -> io.TextIOWrapper:
    """A stream in place of the one with this descriptor. New every time: the code inside may close it."""
    return io.TextIOWrapper(io.BufferedWriter(_Discarding(descriptor)), encoding="utf-8", errors="backslashreplace")


def _redirect(descriptor: int, target: int, undo: Callable[[Undo], None]) -> None:
    """Point an open descriptor elsewhere."""
    with contextlib.suppress(OSError):
        copies = [_aside(descriptor)]

        def back() -> None:
            if copies:
                os.dup2(copies[0], descriptor)
                os.close(copies.pop())

        undo(back)
        os.dup2(target, descriptor)


def _aside(descriptor: int) -> int:
    """A copy that takes the place of no standard stream, where one of those is closed."""
    if sys.platform == "win32":
        return os.dup(descriptor)
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def _mute(stream: Any, undo: Callable[[Undo], None]) -> None:
    _swap(stream, "write", len, undo)
    _swap(stream, "writelines", _nothing, undo)


def _swap(owner: Any, name: str, value: object, undo: Callable[[Undo], None]) -> None:
    """Give `owner` another attribute, where that is possible."""
    with contextlib.suppress(Exception):
        before = vars(owner)
        undo(functools.partial(setattr, owner, name, before[name]) if name in before else functools.partial(delattr, owner, name))
        setattr(owner, name, value)


def _flush(streams: list[Any]) -> None:
    """Empty the buffers of these streams and of the C library. Others than files have none that a descriptor could show."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(Exception):
                stream.flush()
    for name in ("stdout", "stderr"):
        with contextlib.suppress(Exception):
            library, file = _c_stream(name)
            library.fflush(file)


@functools.cache
def _c_stream(name: str) -> tuple[Any, ctypes.c_void_p]:
    """The C library and one of its streams. Not all of them at once: a thread that waits for input keeps the lock of another."""
    library = ctypes.CDLL(None)
    return library, ctypes.c_void_p.in_dll(library, f"__{name}p" if sys.platform == "darwin" else name)


unwarned = Shared(_without_warnings)
_unheard = Shared(_without_output)
