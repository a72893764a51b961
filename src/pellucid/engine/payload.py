"""What travels to other processes: work with its models, which are sent once and arrive as they were tried here.

The schema is the one that a process was started with. A black box is sent by itself, with its settled trial, and is from then on
only named: whoever receives work has a shelf of those that were sent.
"""

from __future__ import annotations

import io
import pickle
import weakref
from collections import OrderedDict
from itertools import count
from typing import Any, TypeVar

import cloudpickle

from ..mechanisms.labels import in_payload
from ..public.asking import Asking
from ..public.black_box import BlackBox
from ..public.row_wise import Passed, arrived, as_tried
from ..public.schema import Schema
from .sandbox.isolated import by_value

ON_SHELF = 32
"""Black boxes that a process keeps: those that were used last."""

V = TypeVar("V")


class Shelf(OrderedDict[int, V]):
    """The last things that were used. Both sides use theirs in the same order, so both know what is still there."""

    def use(self, key: int, value: V | None = None) -> V:
        found = self.pop(key) if value is None else value
        self[key] = found
        while len(self) > ON_SHELF:
            self.popitem(last=False)
        return found


class Sender:
    """Packs what is sent to the processes of one engine."""

    def __init__(self, schema: Schema):
        self._schema, self._numbers = schema, count()
        self._known: weakref.WeakKeyDictionary[BlackBox, tuple[Passed, int]] = weakref.WeakKeyDictionary()
        self._sent: weakref.WeakValueDictionary[int, BlackBox] = weakref.WeakValueDictionary()

    def packed(self, content: Any, asking: Asking) -> tuple[bytes, list[int]]:
        """As bytes, and the numbers of the black boxes that it names."""
        named: dict[int, None] = {}

        def name_of(one: Any) -> Any:
            if one is self._schema:
                return "schema"
            if not isinstance(one, BlackBox):
                return None
            passed = as_tried(one, self._schema, asking)
            known = self._known.get(one)
            if known is None or known[0] is not passed or asking not in known[0].ways:
                known = self._known[one] = passed, next(self._numbers)
                self._sent[known[1]] = one
            named[known[1]] = None
            return "box", known[1]

        return _dumped(content, name_of), list(named)

    def box(self, number: int) -> bytes:
        """A black box with its trial."""
        box = self._sent[number]
        return _dumped((box, self._known[box][0]), lambda one: "schema" if one is self._schema else None)


def _dumped(content: Any, name_of: Any) -> bytes:
    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, one: Any) -> Any:
            return name_of(one)

    file = io.BytesIO()
    with by_value(also_ours=False), in_payload():
        Pickler(file, protocol=5).dump(content)
    return file.getvalue()


class Receiver:
    """Unpacks it on the other side."""

    def __init__(self, schema: Schema):
        self._schema, self._shelf = schema, Shelf[BlackBox]()

    def take(self, number: int, sent: bytes | None) -> None:
        """A black box that is about to be used; it is on the shelf where it is not sent."""
        if sent is None:
            self._shelf.use(number)
            return
        box, passed = self.unpacked(sent)
        arrived(box, passed)
        self._shelf.use(number, box)

    def unpacked(self, sent: bytes) -> Any:
        schema, shelf = self._schema, self._shelf

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, name: Any) -> Any:
                return schema if name == "schema" else shelf[name[1]]

        return Unpickler(io.BytesIO(sent)).load()
