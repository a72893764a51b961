"""Any function of records as the map of a sum over blocks: what it is and what it may use.

Nothing runs in here. An engine runs the function, in processes of its own.
"""

from __future__ import annotations

import hashlib
import math
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import cloudpickle
import pandas as pd

from .. import errors
from ..errors import PlanError
from ..public.black_box import PrivateTraining
from ..public.fingerprint import code_bytes

ASSUMPTIONS = (
    "The function reads nothing about people but the rows it is given, and sends them nowhere.",
    "The function passes nothing from one block to another outside its process: by files, the network or another program.",
    "The function does not attack the machine: it leaves processes alone that it has not started.",
    "A block is too slow or too large because of its own records, not because of the load other blocks put on the machine.",
)
"""What a certificate has to list, because separate processes cannot enforce it."""


@dataclass(frozen=True)
class Derived:
    """Something a function refers to that was made from data: a fitted model, a table of means, thresholds.

    >>> Derived("age groups", trained_on="other data").name
    'age groups'
    """

    name: str
    """What certificates call it."""
    trained_on: Any = None
    """Required, since certificates depend on it: "other data", "this data" or `PrivateTraining(eps, delta)`."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise PlanError(f"Derived({self.name!r}): give it a name, by which the certificate can speak of it.")
        if self.trained_on not in ("other data", "this data") and not isinstance(self.trained_on, PrivateTraining):
            raise PlanError(
                f"Derived({self.name!r}, trained_on={self.trained_on!r}): say what it was made from: 'other data', 'this data' "
                "or pel.PrivateTraining(eps, delta). Certificates depend on it."
            )

    def describe(self) -> dict[str, str]:
        """As plain data, for requests."""
        return {"name": self.name, "trained_on": repr(self.trained_on)}


@dataclass(frozen=True)
class Limits:
    """What one block may use."""

    seconds: float = 60.0
    """Of computing; twice as many may pass on the clock."""
    memory: int = 2 * 2**30
    """Bytes, above what the worker has loaded."""
    workers: int | None = None
    """Blocks that run at the same time; None is the number of usable cores."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise PlanError(f"seconds must be a positive number, got {self.seconds!r}; for example Limits(seconds=60).")
        if not self.memory > 0:
            raise PlanError(
                f"memory must be a positive number of bytes, got {self.memory!r}; for example Limits(memory=2 * 2**30)."
            )
        if self.workers is not None and self.workers < 1:
            raise PlanError(f"workers must be at least 1, got {self.workers!r}; leave it out to use every core.")


@dataclass(frozen=True, eq=False)
class BlockFunction:
    """A user's function as the map of a sum over blocks. Only an engine runs it, where it sees and changes its block alone."""

    function: Callable[[pd.DataFrame], Any]
    """From the records of a block, with declared columns and values, to anything that `adapt` understands."""
    adapt: Callable[[Any], Any]
    """From the function's answer to as many numbers as `default` has; runs beside it. Hashable, as a frozen dataclass is."""
    default: tuple[float, ...]
    """What a block counts as that has no answer."""
    limits: Limits
    """What one block may use."""

    def __call__(self, *rows: Any) -> NoReturn:
        """Refuse: a map is called in the process that holds all records, and a function must not run there."""
        raise AssertionError("a function of blocks runs in processes of its own")


@dataclass(frozen=True, eq=False)
class FunctionTrial:
    """A function to be tried on public records before anything is charged."""

    function: BlockFunction
    """What is tried."""
    columns: tuple[str, ...]
    """The columns its blocks will have."""
    size: int
    """Records in a block."""


def name_of(function: Any) -> str:
    """What to call a function on a certificate."""
    try:
        return str(getattr(function, "__name__", None) or type(function).__name__)
    except Exception:
        return type(function).__name__


def digest_of(function: Any) -> str:
    """Tells two functions apart when a request is replayed: by what is sent, and by the code behind what is sent by name."""
    try:
        content = cloudpickle.dumps(function) + _source_of(function)
    except Exception:
        raise PlanError(
            f"the function {name_of(function)} cannot be sent to another process; create what cannot be copied (open files, "
            "connections, locks) inside the function."
        ) from None
    return hashlib.sha256(content).hexdigest()


def _source_of(function: Any) -> bytes:
    """A function of a module is sent by its name alone, which may mean something else after the module was edited."""
    owner = function if isinstance(function, types.FunctionType) else type(function)
    called = function if isinstance(function, types.FunctionType) else vars(owner).get("__call__")
    code = getattr(called, "__code__", None)
    path = getattr(sys.modules.get(getattr(owner, "__module__", None) or ""), "__file__", None)
    source = Path(path).read_bytes() if path and Path(path).is_file() else b""
    return (code_bytes(code) if code else b"") + source


_whole: set[str] = set()


def sent_whole(module: str) -> None:
    """Say that what is defined in this module is sent to other processes with its code, instead of being imported there.

    A module of this package says so of itself, `sent_whole(__name__)`, when its functions run on blocks: their processes do not
    load the package. Whoever loads a file as a module says so too, because no other process could import it.
    """
    _whole.add(module)


def modules_sent_whole() -> list[types.ModuleType]:
    """All modules that are loaded and sent whole."""
    return [sys.modules[name] for name in sorted(_whole & sys.modules.keys())]


# Any function of ours may raise one of them.
sent_whole(errors.__name__)
