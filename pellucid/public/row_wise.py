"""The trial of black boxes on public records: is it a function of one row, to the last bit?

A record is asked about in questions of the shape that people are asked about in, at many places and in different company; its
answer may depend on neither. Only records drawn from the schema are involved, and nothing is charged yet. Before every charge
it is asked again, as a fitted estimator can be changed after it was wrapped: where a single answer is another one, all of the
trial is done anew.
"""

from __future__ import annotations

import contextlib
import copy
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ModelError, SchemaError
from .asking import DEFAULT, FEWEST, Asking, look_for_libraries
from .black_box import BlackBox
from .ready import PROBES, Ready, Refused, joined, taken
from .schema import Category, Schema, did_you_mean
from .silence import silenced

EXTREMES = 4
"""Records at the ends of all columns, for company that is one-sided."""
SMALL = 1 << 6
"""Records of the smallest question."""


@dataclass(frozen=True, eq=False)
class Passed:
    """A trial that was passed."""

    ready: Ready
    answers: np.ndarray
    """To public records, and to the extremes after them."""
    ways: set[Asking]
    """How it was asked."""


_passed: weakref.WeakKeyDictionary[BlackBox, Passed] = weakref.WeakKeyDictionary()


def tried(box: BlackBox, schema: Schema, asking: Asking | None = None, again: bool = False) -> Any:
    """The black box as it passed its trial, for the last schema; `again` tries it even if it passed before."""
    before = _passed.get(box)
    if before is not None and before.ready.schema is not schema:
        before = None
    if before is not None and not again and (asking is None or asking in before.ways):
        return before.ready
    if before is not None and (asking or DEFAULT) in before.ways and _as_before(before, box, asking or DEFAULT):
        return before.ready
    # Of a copy: an entry whose value refers to its own key would keep it alive for ever.
    ready, answers = _trial(copy.copy(box), schema, asking or DEFAULT)
    if before is None or ready.fingerprint != before.ready.fingerprint or not np.array_equal(answers, before.answers):
        before = _passed[box] = Passed(ready, answers, set())
    # Where it is the same as before, what was read off it then is still true, and kept.
    before.ways.add(asking or DEFAULT)
    return before.ready


def _as_before(before: Passed, box: BlackBox, asking: Asking) -> bool:
    """Whether a box that passed its trial is the same one, and answers as it did whatever the company."""
    ready, rng = before.ready, np.random.default_rng()
    records, expected = joined([ready.public, ready.inputs(_extremes(ready))]), before.answers
    # Other company each time, of which some are there much more often than others.
    often = rng.exponential(size=len(records)) ** 3
    mixed = rng.choice(len(records), asking.rows or FEWEST, p=often / often.sum())
    extremes = np.arange(PROBES, len(records)).reshape(2, -1)
    try:
        with silenced():
            if box.fingerprint_with(ready.raw(ready.public)) != ready.fingerprint:
                return False
            for chosen in (rng.choice(extremes[0], SMALL), rng.choice(extremes[1], SMALL), mixed):
                found = ready.raw(taken(records, chosen))
                exactly = chosen is mixed and not np.array_equal(found, expected[chosen])
                if exactly or ready.apart(found, expected[chosen]).any():
                    return False
    except (Exception, SystemExit):
        return False
    return not asking.strict or bool(np.array_equal(ready.row_by_row(ready.public, asking), expected[:PROBES]))


def _trial(box: BlackBox, schema: Schema, asking: Asking) -> tuple[Ready, np.ndarray]:
    features = box.features or tuple(schema)
    for name in features:
        if name not in schema:
            raise SchemaError(f"the {box.kind} uses {name!r}, which the schema does not declare{did_you_mean(name, schema)}.")
    failures: list[str] = []
    for form in _forms(box, schema, features):
        ready = box.in_form(schema, features, form)
        try:
            answers = _answers(ready, asking)
            ready.fingerprint = box.fingerprint_with(answers[:PROBES])
            ready.answers, ready.remark = ready.digest(answers), ready.remark_on(answers[:PROBES])
            return ready, answers
        except Refused as refusal:
            failures.append(str(refusal))
    raise ModelError(
        f"the {box.kind} {box.name!r} was refused on public records drawn from the schema: {failures[0]} Nothing was charged."
    )


def _forms(box: BlackBox, schema: Schema, features: Sequence[str]) -> list[str]:
    """The forms of input to try, the likeliest first."""
    text = [name for name in features if isinstance(schema[name], Category) and not schema[name].numeric]  # type: ignore[union-attr]
    if box.input == "array" and text:
        raise ModelError(f"input='array' needs numbers, but {text[0]!r} has text values; use input='codes' or 'frame'.")
    if box.input in ("array", "codes"):
        return [box.input]
    trained_on_array = hasattr(box.predictor, "n_features_in_") and not hasattr(box.predictor, "feature_names_in_")
    if box.input is None and trained_on_array and not text:
        return ["array"]
    # Some libraries insist on pandas' category type for text; public records tell which of the two the predictor takes.
    return ["frame", "category frame"] if text else ["frame"]


def _answers(ready: Ready, asking: Asking) -> np.ndarray:
    """The answers to public records, once they have been shown to belong to single rows."""
    rows = asking.rows or FEWEST
    with silenced():
        with contextlib.suppress(Exception, SystemExit):
            # A first call may load libraries, whose threads are to be limited from then on.
            ready.raw(taken(ready.public, np.arange(1)))
        look_for_libraries()
        records = joined([ready.public, ready.inputs(_extremes(ready))])
        order = np.random.default_rng(1).integers(0, len(records), rows)
        order[:PROBES], order[-EXTREMES:] = np.arange(PROBES), np.arange(PROBES, len(records))
        try:
            whole = ready.accepted(taken(records, order))
        except Refused:
            raise
        except (Exception, SystemExit) as error:
            raise Refused(f"it raised {type(error).__name__} ({str(error)[:200]}); check features= and input=.") from None
        answers = np.empty(len(records))
        answers[order] = whole
        try:
            what = _changed(ready, records, order, whole, answers)
        except Refused:
            raise
        except (Exception, SystemExit) as error:
            raise Refused(ready.refusals.batch.format(error=type(error).__name__)) from None
    if what is None and asking.strict:
        what = _differ(ready, ready.row_by_row(ready.public, asking), whole[:PROBES], "when it was asked in another process")
    if what is not None:
        raise Refused(what)
    return answers


def _changed(ready: Ready, records: Any, order: np.ndarray, whole: np.ndarray, answers: np.ndarray) -> str | None:
    """What is wrong where an answer changed; `answers` are those of the records at the last of their places."""
    found = _differ(ready, whole, answers[order], "with its place in the batch")
    if found is not None:
        return _differ(ready, ready.raw(taken(records, order)), whole, "when it was asked twice") or found
    rng, extremes = np.random.default_rng(2), np.arange(PROBES, len(records))
    # Whatever a model makes of a batch (a mean, a largest value, ranks), it is something else for such one-sided company.
    for company in (extremes[: EXTREMES // 2], extremes[EXTREMES // 2 :]):
        chosen = rng.choice(company, len(order))
        found = _differ(ready, ready.raw(taken(records, chosen)), answers[chosen], "with the other records of the batch")
        if found is not None:
            return _differ(ready, ready.raw(taken(records, order)), whole, "when it was asked twice") or found
    # The last bits may depend on the size, which is the same for all people; more than that is no function of one row.
    small = np.concatenate([ready.raw(taken(records, np.arange(1))), ready.raw(taken(records, np.arange(1, SMALL)))])
    if np.mean(ready.apart(small, answers[:SMALL])) > 0.01:
        return ready.refusals.changed.format(what="with the size of the batch")
    return None


def _differ(ready: Ready, again: np.ndarray, answers: np.ndarray, what: str) -> str | None:
    """In words, when two answers differ in a single bit."""
    if np.array_equal(again, answers):
        return None
    nearly = "" if ready.apart(again, answers).any() else ready.refusals.nearly
    return ready.refusals.changed.format(what=what) + nearly


def _extremes(ready: Ready) -> dict[str, np.ndarray]:
    """Records at the lower end of every column and near it, and near the upper end and at it."""
    ends = np.array([0.0, 0.25, 0.75, 1.0])
    found = {}
    for name in ready.features:
        feature = ready.schema[name]
        if isinstance(feature, Category):
            found[name] = np.floor(ends * (len(feature.values) - 1) + 0.5)
        else:
            value = feature.lo + ends * (feature.hi - feature.lo)
            found[name] = np.rint(value) if feature.integer else value
    return found
