"""Secret labels: who is paired with whom, which rows of a person stay, which block is whose.

A label is a keyed pseudo-random function of *which* row or person it is, and of nothing that they hold: AES-256 under a key of 32
bytes that is drawn for one order and forgotten with it. Whoever has the key finds the same label again, in another process, on
another machine and when a task is run twice; without it labels cannot be told from independent draws, which is an assumption
about AES of the kind that the operating system's own generator rests on. Claim: pairs
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from . import source

KEY_BYTES = 32
ROW, WHOLE, NEGATIVE, KEY_OF_BYTES = range(4)
"""What a block is about, in its first half: a row, a whole number, one below zero, or the key for ids that are bytes."""

ASSUMPTION = "secret orders are those of AES-256 under a fresh random key, which nobody can tell from independent draws"
"""For certificates of releases that use labels."""

_travels: ContextVar[bool] = ContextVar("travels", default=False)


@contextlib.contextmanager
def in_payload() -> Iterator[None]:
    """While this lasts labels may be pickled: for the payload of a task, which nobody stores or shows."""
    token = _travels.set(True)
    try:
        yield
    finally:
        _travels.reset(token)


class Labels:
    """The labels of one secret order.

    Labels are arrays of shape (n, 2): the high and the low half of 128 bits. Different rows, and different ids that are whole
    numbers, never have the same one, because AES is a permutation; of ids that are texts two have with probability n²/2^129.

    >>> labels = Labels(bytes(32))
    >>> bool((labels.of_rows(0, 10)[4:7] == labels.of_rows(4, 7)).all())
    True
    >>> labels
    Labels()
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes):
        if len(key) != KEY_BYTES:
            raise AssertionError("a key of labels has 32 bytes")
        self._key = bytes(key)

    def of_rows(self, start: int, stop: int) -> np.ndarray:
        """The labels of the rows with these numbers, in the fixed order of the table."""
        return self.of_row_numbers(np.arange(start, stop, dtype=np.uint64))

    def of_row_numbers(self, numbers: np.ndarray) -> np.ndarray:
        """The labels of rows that do not follow each other."""
        return self._encrypted(ROW, numbers.astype(np.uint64, copy=False))

    def of_numbers(self, numbers: np.ndarray) -> np.ndarray:
        """The labels of ids that are whole numbers, whatever their width and whether or not it has a sign."""
        if not np.issubdtype(numbers.dtype, np.signedinteger):
            return self._encrypted(WHOLE, numbers.astype(np.uint64))
        wide = numbers.astype(np.int64)
        return self._encrypted(np.where(wide < 0, NEGATIVE, WHOLE), wide.view(np.uint64))

    def of_bytes(self, cells: Iterable[bytes]) -> np.ndarray:
        """The labels of ids that are texts, byte by byte: keyed BLAKE2b of 128 bits."""
        own = self._encrypted(KEY_OF_BYTES, np.arange(4, dtype=np.uint64)).tobytes()
        blank = hashlib.blake2b(key=own, digest_size=16)

        def digest(cell: bytes) -> bytes:
            found = blank.copy()
            found.update(cell)
            return found.digest()

        return np.frombuffer(b"".join(map(digest, cells)), dtype="<u8").reshape(-1, 2)

    def _encrypted(self, about: Any, numbers: np.ndarray) -> np.ndarray:
        blocks = np.empty((len(numbers), 2), dtype="<u8")
        blocks[:, 0], blocks[:, 1] = about, numbers
        made = bytearray(blocks.nbytes + 15)
        _cipher(self._key).update_into(blocks.reshape(-1).view(np.uint8), made)
        return np.frombuffer(made, dtype="<u8", count=2 * len(numbers)).reshape(-1, 2)

    def __repr__(self) -> str:
        return "Labels()"

    def __reduce__(self) -> Any:
        if not _travels.get():
            raise TypeError("labels are secret, and travel only inside the payload of a task")
        return Labels, (self._key,)


def _cipher(key: bytes) -> Any:
    return _parts()(key)


@functools.cache
def _parts() -> Any:
    # Imported when the first label is wanted: a tenth of a second that most sessions do not need.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return lambda key: Cipher(algorithms.AES(key), modes.ECB()).encryptor()


def fresh() -> Labels:
    """The labels of a new order, under a key of its own."""
    return Labels(source.current.bits(KEY_BYTES))
