"""Fingerprints of predictors: what tells two of them apart when a request is replayed.

A fingerprint is part of the request that a ledger keeps, so that it must be the same in later versions of this package. Bytes
of a predictor name its classes by module; classes of ours are named by what they were registered as, wherever their file is.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import secrets
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .silence import silenced

Named = TypeVar("Named", bound=type)

_registered: dict[tuple[Any, Any], tuple[str, str]] = {}
"""(module, name) of a class now → (module, name) in fingerprints."""


def fingerprinted_as(module: str, name: str) -> Callable[[Named], Named]:
    """Registers the name of a class in fingerprints; a class that is not registered goes by its module, and must not move."""

    def register(named: Named) -> Named:
        # Interned: a pickle writes a text again unless it is the same object, and so are the modules of two classes.
        _registered[named.__module__, named.__qualname__] = sys.intern(module), sys.intern(name)
        return named

    return register


def fingerprint(predictor: Any, answers: np.ndarray) -> str:
    """Tells two predictors apart: by their answers on public records and, where possible, by their bytes."""
    with silenced():
        try:
            content = _bytes_of(predictor)
            if isinstance(predictor, types.FunctionType):
                content += code_bytes(predictor.__code__)  # pickled by name alone, which may mean another one later
        except Exception:
            content = _function_bytes(predictor)
    with np.errstate(over="ignore"):
        digest = hashlib.sha256(np.round(answers, 9).tobytes())
    digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def code_bytes(code: types.CodeType) -> bytes:
    """Code without the addresses that its inner functions have in this process."""
    inner = [code_bytes(c) if isinstance(c, types.CodeType) else repr(c).encode() for c in code.co_consts]
    return code.co_code + repr(code.co_names).encode() + b"".join(inner)


def _function_bytes(function: Any) -> bytes:
    """What a function is made of: its code and the values it carries; one that carries what has no bytes equals only itself."""
    code = getattr(function, "__code__", None)
    if code is None:
        return _token(function)
    carried = [cell.cell_contents for cell in function.__closure__ or ()] + [function.__defaults__, function.__kwdefaults__]
    try:
        values = _bytes_of([carried, [function.__globals__.get(name) for name in code.co_names if _plain(function, name)]])
    except Exception:
        values = _token(function)
    return code_bytes(code) + values


_tokens: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()


def _token(predictor: Any) -> bytes:
    """Bytes that belong to this object and to no other one, as long as it lives."""
    try:
        return _tokens.setdefault(predictor, secrets.token_bytes(32))
    except TypeError:
        return secrets.token_bytes(32)


def _plain(function: Any, name: str) -> bool:
    """Whether a global that a function uses is data rather than a module, a class or another function."""
    value = function.__globals__.get(name)
    return not (callable(value) or isinstance(value, types.ModuleType))


def _bytes_of(value: Any) -> bytes:
    """The pickle of a value, with classes of ours under their registered names and without what lies between fields."""
    content = _pickled(value, _Clean)
    return content if b"pellucid." not in content else _pickled(value, _Pickler)


def _pickled(value: Any, pickler: Callable[[io.BytesIO], Any]) -> bytes:
    file = io.BytesIO()
    pickler(file).dump(value)
    return file.getvalue()


def _without_gaps(obj: Any) -> Any:
    """How to pickle a table of records with gaps between its fields: zeros in the gaps.

    Gaps hold whatever was in memory. Trees of scikit-learn have some in every node, so that one file would be another model
    each time it is loaded, and nothing about it would ever be replayed.
    """
    if type(obj) is not np.ndarray or not obj.dtype.names or obj.dtype.hasobject or not obj.flags.c_contiguous:
        return NotImplemented
    between = np.ones(obj.dtype.itemsize, dtype=bool)
    for field, start, *_ in obj.dtype.fields.values():
        between[start : start + field.itemsize] = False
    clean = obj.copy()
    clean.reshape(-1).view(np.uint8).reshape(obj.size, obj.dtype.itemsize)[:, between] = 0
    return clean.__reduce_ex__(pickle.DEFAULT_PROTOCOL)


class _Clean(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        return _without_gaps(obj)


_InPython: Any = pickle._Pickler
"""The pickler in C cannot be told other names; the one in Python writes the same bytes."""


class _Pickler(_InPython):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        return _without_gaps(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        known = _registered.get((getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)))
        if known is None:
            super().save_global(obj, name)
            return
        for part in known:
            self.save(part)
        self.write(pickle.STACK_GLOBAL)
        self.memoize(obj)
