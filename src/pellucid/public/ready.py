"""Black boxes bound to a schema: what they are given, how they are asked, and what becomes of rows on which they fail.

A question about people always has the same shape (see `asking`). A row on which a black box fails has no answer, alone and in
silence: it is looked for with the other rows of its question exchanged for public ones, in questions of the same shape. Where
last bits depend on the place of a row in its question, the row itself settles that place (see `places`).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from .asking import DEFAULT, Asking, one_thread
from .places import Places
from .schema import Category, Columns, Schema
from .silence import silenced

PROBES = 1 << 10
"""Public records that a black box is tried on, and that fill up its questions."""
TOGETHER = 16
"""Questions that are laid out together by place: enough that few places stay free, and few enough to hold."""


class Refused(Exception):
    """What is wrong with the answers of a black box, in words."""


@dataclass(frozen=True)
class Refusals:
    """What is said of a black box that is no function of one row."""

    batch: str
    """When it raises `{error}` among other records only."""
    changed: str
    """When its answer for a record changed with `{what}`."""
    nearly: str = ""
    """What is added where it hardly changed."""


class Ready(ABC):
    """A black box bound to a schema.

    How a kind of black box is tried is said by `accepted`: what its answers must look like.
    """

    refusals: ClassVar[Refusals]

    def __init__(self, call: Callable[[Any], Any], schema: Schema, features: tuple[str, ...], input: str):
        self.schema, self.features, self.input = schema, features, input
        self.fingerprint = ""
        self.answers = self.remark = ""
        self.places: dict[int, Places] = {}
        """By the number of rows of a question: where records stand, if last bits depend on it."""
        self.computed_here = False
        """Whether it was read, and is not asked about people: see `fitted.read`."""
        self._call = call
        self._public: Any = None
        self._filling: dict[int, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Public records can be made again anywhere.
        return {**vars(self), "_public": None, "_filling": {}}

    @abstractmethod
    def raw(self, inputs: Any) -> np.ndarray:
        """The predictor's answers as one number per row; `Refused` if there is not one per row. Not silenced."""

    @abstractmethod
    def declared(self, answers: np.ndarray) -> np.ndarray:
        """What `raw` said, NaN where it failed, as answers that were declared."""

    @abstractmethod
    def accepted(self, inputs: Any) -> np.ndarray:
        """What `raw` says of public records; `Refused` if that is no answer a row may have."""

    @abstractmethod
    def apart(self, answers: np.ndarray, again: np.ndarray) -> np.ndarray:
        """Where two answers are not the same, not even nearly."""

    def digest(self, answers: np.ndarray) -> str:
        """Of declared answers to public records, to nine digits of their range: the last ones depend on the shape."""
        return hashlib.sha256((np.round(self.shares(answers), 9) + 0.0).tobytes()).hexdigest()

    def remark_on(self, answers: np.ndarray) -> str:
        """What a user should know about the answers to public records; nothing, where they are as declared."""
        return ""

    @property
    def manner(self) -> str:
        """How it is asked, where that is not as usual; certificates add it to what they assume."""
        one_in = " or ".join(str(period) for period in sorted({places.period for places in self.places.values()}))
        return f"; its last digits depend on places in a batch: each row settles its own place, one in {one_in}" if one_in else ""

    def shares(self, answers: np.ndarray) -> np.ndarray:
        """Declared answers on a scale of their own."""
        return self.declared(answers)

    def inputs(self, columns: Columns) -> Any:
        """What the predictor is given for these columns."""
        if self.input in ("frame", "category frame"):
            return pd.DataFrame({name: self.values(name, columns[name]) for name in self.features}, copy=False)
        table = np.empty((len(columns[self.features[0]]), len(self.features)))
        for j, name in enumerate(self.features):
            table[:, j] = self.values(name, columns[name])
        return table

    def values(self, name: str, positions: np.ndarray) -> Any:
        """One column in the words of the predictor."""
        feature = self.schema[name]
        if isinstance(feature, Category):
            if self.input == "codes":
                return positions
            if feature.numeric:
                return feature.values_at(positions)
            if self.input == "category frame":
                return pd.Categorical.from_codes(positions.astype(np.intp), list(feature.values), ordered=feature.ordered)  # type: ignore[call-overload]
            # Plain objects: encoders turn other kinds of text into these at every call.
            return pd.Series(feature.values_at(positions), dtype=object)
        return positions if self.input in ("array", "codes") else feature.values_at(positions)

    def with_column(self, inputs: Any, name: str, positions: np.ndarray) -> Any:
        """The same inputs with one column set; the original is left as it was."""
        if isinstance(inputs, pd.DataFrame):
            changed = inputs.copy(deep=False)
            changed[name] = self.values(name, positions)
            return changed
        changed = inputs.copy()
        changed[:, self.features.index(name)] = self.values(name, positions)
        return changed

    @property
    def public(self) -> Any:
        """Public records drawn from the schema, as inputs."""
        if self._public is None:
            drawn = self.schema.sample(PROBES)
            self._public = self.inputs({name: drawn[name] for name in self.features})
        return self._public

    def called(self, inputs: Any) -> Any:
        """Whatever the predictor returns."""
        # A shallow copy: a predictor that writes into its input writes into its own.
        given = inputs.copy(deep=False) if isinstance(inputs, pd.DataFrame) else inputs.copy()
        with one_thread():
            return self._call(given)

    def predict(self, inputs: Any, asking: Asking = DEFAULT) -> np.ndarray:
        """One declared answer per row, also for a row that fails."""
        return self.predict_each([inputs], asking)[0]

    def predict_each(self, asked: Iterable[Any], asking: Asking = DEFAULT) -> list[np.ndarray]:
        """As `predict`, for several inputs one after another: small ones share a question."""
        return [self.declared(answers) for answers in self.each(asked, asking)]

    def row_by_row(self, inputs: Any, asking: Asking) -> np.ndarray:
        """What `raw` says, in silence, with NaN for a row that fails."""
        return self.each([inputs], asking)[0]

    def each(self, asked: Iterable[Any], asking: Asking) -> list[np.ndarray]:
        """As `row_by_row`, for several inputs one after another: small ones share a question."""
        sizes: list[int] = []
        answers = self.through(self.raw, _counted(asked, sizes), asking)
        return np.split(answers[:, 0], np.cumsum(sizes)[:-1])

    def through(self, call: Callable[[Any], np.ndarray], asked: Iterable[Any], asking: Asking, width: int = 1) -> np.ndarray:
        """What some part of the predictor says of each row, so many numbers; NaN for a row that fails.

        Whatever of it is called with people is called here: in one shape, in silence, and apart where that is wanted.
        """
        part, places = Part(self, call, width), self.places.get(asking.rows)
        with silenced():
            if places is None:
                answers = self._answered(part, _pieces(asked, asking.rows), asking)
            else:
                together = _pieces(asked, places.usable * TOGETHER)
                answers = (self._by_place(part, inputs, places, asking) for inputs in together)
            return np.concatenate([np.empty((0, width)), *answers])

    def _by_place(self, part: Part, inputs: Any, places: Places, asking: Asking) -> np.ndarray:
        """The answers to all rows, each at a place that it settles itself among rows that are public or do the same."""
        questions, everything = places.questions(places.homes(inputs)), joined([self.filling(places.rows), inputs])

        def laid_out(at: np.ndarray, who: np.ndarray) -> Any:
            index = np.arange(places.rows)
            index[at] = places.rows + who
            return taken(everything, index)

        answers = np.empty((len(inputs), part.width))
        laid = (laid_out(at, who) for at, who in questions)
        for (at, who), found in zip(questions, self._answered(part, laid, asking), strict=True):
            answers[who] = found[at]
        return answers

    def _answered(self, part: Part, pieces: Iterable[Any], asking: Asking) -> Iterable[np.ndarray]:
        if asking.apart is None:
            return (part.answers_to(piece, asking.rows) for piece in pieces)
        return self._apart(part, pieces, asking)

    def _apart(self, part: Part, pieces: Iterable[Any], asking: Asking) -> Iterator[np.ndarray]:
        assert asking.apart is not None
        sizes: list[int] = []
        filled = (self.among_public(piece, 0, len(piece), asking.rows) for piece in _counted(pieces, sizes))
        for answers in asking.apart(part, asking.rows * part.width, filled):
            yield answers.reshape(-1, part.width)[: sizes.pop(0)]

    def filling(self, rows: int) -> Any:
        """A question of public records alone."""
        if rows not in self._filling:
            self._filling[rows] = taken(self.public, np.arange(rows) % PROBES)
        return self._filling[rows]

    def among_public(self, piece: Any, start: int, stop: int, rows: int) -> Any:
        """Rows of a question at their places; what lies around them is public."""
        if (start, stop) == (0, rows):
            return piece
        filling = self.filling(rows)
        return joined([_rows(filling, 0, start), _rows(piece, start, stop), _rows(filling, stop, rows)])


@dataclass(frozen=True)
class Part:
    """What is asked of a predictor: its answers, or those of its first steps."""

    ready: Ready
    call: Callable[[Any], np.ndarray]
    width: int

    def __call__(self, frame: pd.DataFrame) -> np.ndarray:
        """Answers one question in another process, where inputs arrive as a frame."""
        framed = self.ready.input in ("frame", "category frame")
        given = frame if framed else np.ascontiguousarray(frame.to_numpy(dtype=float))
        return self.answers_to(given, len(frame)).ravel()

    def answers_to(self, piece: Any, rows: int) -> np.ndarray:
        """The answers to one question, in which `piece` is filled up to so many rows."""
        return self._found(piece, 0, len(piece), rows or len(piece))

    def _found(self, piece: Any, start: int, stop: int, rows: int) -> np.ndarray:
        """What is said of some rows of a question, all others of it exchanged for public ones; NaN for a row that fails."""
        interrupted = False
        try:
            answers = np.asarray(self.call(self.ready.among_public(piece, start, stop, rows)), dtype=float)
            return answers.reshape(rows, self.width)[start:stop]
        except KeyboardInterrupt:
            interrupted = True
        except BaseException:
            pass
        if interrupted:
            # Raised anew, outside the handler: a predictor's own interrupt could carry a row in its message.
            raise KeyboardInterrupt
        if stop - start <= 1:
            return np.full((stop - start, self.width), np.nan)
        # Halving finds the failing rows without letting one of them decide what its neighbours get.
        middle = (start + stop) // 2
        return np.concatenate([self._found(piece, start, middle, rows), self._found(piece, middle, stop, rows)])


def _counted(asked: Iterable[Any], sizes: list[int]) -> Iterator[Any]:
    for inputs in asked:
        sizes.append(len(inputs))
        yield inputs


def _pieces(asked: Iterable[Any], rows: int) -> Iterator[Any]:
    """All rows in order, so many at a time; as they come where `rows` is 0."""
    waiting: list[Any] = []
    for inputs in asked:
        start, stop = 0, len(inputs)
        while start < stop:
            room = rows - sum(len(piece) for piece in waiting) if rows else stop
            waiting.append(_rows(inputs, start, min(start + room, stop)))
            start += room
            if start <= stop:
                yield joined(waiting)
                waiting = []
    if waiting:
        yield joined(waiting)


def _rows(inputs: Any, start: int, stop: int) -> Any:
    return inputs.iloc[start:stop] if isinstance(inputs, pd.DataFrame) else inputs[start:stop]


def joined(pieces: Sequence[Any]) -> Any:
    """Rows one after another."""
    pieces = [piece for piece in pieces if len(piece)]
    if len(pieces) == 1:
        return pieces[0]
    return pd.concat(pieces, ignore_index=True) if isinstance(pieces[0], pd.DataFrame) else np.concatenate(pieces)


def taken(inputs: Any, index: np.ndarray) -> Any:
    """Some rows, in an order of one's own."""
    return inputs.iloc[index].reset_index(drop=True) if isinstance(inputs, pd.DataFrame) else inputs[index]


def asked(predictor: Any) -> Callable[[Any], Any]:
    """How a predictor is called: by the name of its method, as somebody may put another one in its place."""
    return (lambda inputs: predictor.predict(inputs)) if hasattr(predictor, "predict") else predictor
