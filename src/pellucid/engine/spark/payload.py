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
from ...public.black_box import BlackBox
from ...public.row_wise import settle_trials, settled_trials
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


def pickled(work: Any) -> bytes:
    """Work with its sums and models, and the code of what executors could not import."""
    with io.BytesIO() as file, by_value(), in_payload():
        pickler = _Pickler(file)
        pickler.dump(work)
        # By the same pickler: what a model and its trial have in common is sent once, and is one object there too.
        pickler.dump(settled_trials(pickler.met.values()))
        return file.getvalue()


def unpickled(content: bytes) -> Any:
    """Work as it was pickled; its models have passed their trials."""
    with io.BytesIO(content) as file:
        unpickler = pickle.Unpickler(file)
        work = unpickler.load()
        settle_trials(unpickler.load())
    return work
