"""What travels to executors: everything a task needs, pickled once a query.

Models travel with the trial that they have passed: what a release is computed with is what its certificate was written about, and
no executor tries a model again.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import cloudpickle

from ...mechanisms.labels import in_payload
from ...public.asking import Asking
from ...public.black_box import BlackBox
from ...public.row_wise import arrived, as_tried
from ...public.schema import Schema
from ..sandbox.isolated import by_value


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Notes which models it has met."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file, protocol=5)
        self.met: dict[int, BlackBox] = {}

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, BlackBox):
            self.met[id(value)] = value
        return super().reducer_override(value)


def pickled(work: Any, schema: Schema, asking: Asking) -> bytes:
    """Work with its sums and models, and the code of what executors could not import."""
    with io.BytesIO() as file, by_value(also_ours=False), in_payload():
        pickler = _Pickler(file)
        pickler.dump(work)
        # By the same pickler: what a model and its trial have in common is sent once, and is one object there too.
        pickler.dump([(box, as_tried(box, schema, asking)) for box in list(pickler.met.values())])
        return file.getvalue()


def unpickled(content: bytes) -> Any:
    """Work as it was pickled; its models have passed their trials."""
    with io.BytesIO(content) as file:
        unpickler = pickle.Unpickler(file)
        work = unpickler.load()
        for box, passed in unpickler.load():
            arrived(box, passed)
    return work
