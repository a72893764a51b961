"""The trial of black boxes on public records: is it a function of one row, to the last bit?

A record is asked about in questions of the shape that people are asked about in, at many places and in different company; its
answer may depend on neither. Where it does, in last digits, it is asked about at places that the record settles itself, if there
are such that are alike (see `places`), and all of the trial is made in that way. Only records drawn from the schema are
involved, and nothing is charged yet. Before every charge it is asked again, as a fitted estimator can be changed after it was
wrapped: where a single answer is another one, all of the trial is done anew.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import ModelError, SchemaError
from .asking import DEFAULT, FEWEST, Asking, look_for_libraries
from .black_box import BlackBox
from .places import Places, repeating
from .ready import PROBES, Ready, Refused, joined, taken
from .schema import Category, Schema, did_you_mean
from .silence import silenced

EXTREMES = 4
"""Records at the ends of all columns, for company that is one-sided."""
SMALL = 1 << 6
"""Records of the smallest question."""
TELLING = 16
"""Records that stand at every place of a question, when places that are alike are looked for."""
PERIODS = 4
"""Periods that are tried, of those in which the answers to such records repeat."""
ROUNDS = 8
"""Questions of other company that records are asked about at their places."""

Asked = tuple[np.ndarray, np.ndarray]
"""The records of a question in their order, and what was said of each."""


@dataclass(frozen=True, eq=False)
class Passed:
    """A trial that was passed."""

    ready: Ready
    ways: dict[Asking, np.ndarray]
    """How it was asked, and its answers to public records and to the extremes after them."""


_passed: weakref.WeakKeyDictionary[BlackBox, Passed] = weakref.WeakKeyDictionary()
_kept: ContextVar[Mapping[BlackBox, Passed]] = ContextVar("kept", default=MappingProxyType({}))
"""The trials that count in this thread, whatever was tried since in another one."""


@contextlib.contextmanager
def kept_as_tried(boxes: Iterable[BlackBox], schema: Schema, asking: Asking = DEFAULT) -> Iterator[None]:
    """Inside, these are what passed the last trial: a release is computed with what its certificate was written about, also
    where another thread changes the model and tries it again, or tries it for another schema; or where a model that was asked
    about people has changed another one. `asking` is how people are asked about: public records need no trial of another way."""
    tried_so = {box: passed for box in boxes if (passed := _passed.get(box)) is not None and asking in passed.ways}
    found = {box: passed for box, passed in tried_so.items() if passed.ready.schema is schema}
    token = _kept.set(MappingProxyType({**_kept.get(), **found}))
    try:
        yield
    finally:
        _kept.reset(token)


def as_tried(box: BlackBox, schema: Schema, asking: Asking) -> Passed:
    """The trial that counts here, for other processes, which do not try a black box again."""
    ready, kept = tried(box, schema, asking), _kept.get().get(box)
    return kept if kept is not None and kept.ready is ready else _passed[box]


def arrived(box: BlackBox, passed: Passed) -> None:
    """Take a black box that came from another process as it was tried there."""
    _passed[box] = passed


def tried(box: BlackBox, schema: Schema, asking: Asking | None = None, again: bool = False) -> Any:
    """The black box as it passed its trial, for the last schema; `again` tries it even if it passed before."""
    kept = _kept.get().get(box)
    before = kept or _passed.get(box)
    if before is not None and before.ready.schema is not schema:
        before = None
    asking = asking if asking is not None and asking.rows else None
    if before is not None and not again and (before is kept or asking is None or asking in before.ways):
        return before.ready
    asking = asking or DEFAULT
    known = None if before is None else before.ways.get(asking)
    if before is not None and known is not None and _as_before(before.ready, known, box, asking):
        return before.ready
    # Of a copy: an entry whose value refers to its own key would keep it alive for ever.
    ready, answers = _trial(copy.copy(box), schema, asking)
    same = before is not None and ready.fingerprint == before.ready.fingerprint
    if before is None or not same or (known is not None and not np.array_equal(answers, known)):
        before = _passed[box] = Passed(ready, {})
    # Where it is the same as before, what was read off it then is still true, and kept.
    before.ready.places.update(ready.places)
    before.ways[asking] = answers
    return before.ready


def _as_before(ready: Ready, expected: np.ndarray, box: BlackBox, asking: Asking) -> bool:
    """Whether a box that passed its trial is the same one, and answers as it did whatever the company."""
    rng, records = np.random.default_rng(), joined([ready.public, ready.inputs(_extremes(ready))])
    places = ready.places.get(asking.rows, Places.anywhere(asking.rows))
    extremes = np.arange(PROBES, len(records)).reshape(2, -1)
    try:
        with silenced():
            public = ready.raw(ready.public) if places.all_alike else ready.row_by_row(ready.public, Asking(asking.rows))
            if box.fingerprint_with(public) != ready.fingerprint:
                return False
            if ready.computed_here:
                # Whoever is in whose company is nothing to it: it is not asked.
                return True
            for company in extremes:
                chosen = rng.choice(company, SMALL)
                if ready.apart(ready.raw(taken(records, chosen)), expected[chosen]).any():
                    return False
            # Other company each time.
            mixed = _mixed(places, records, rng)
            home = places.at_home(places.homes(records)[mixed])
            if not np.array_equal(ready.raw(taken(records, mixed))[home], expected[mixed[home]]):
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
        try:
            answers, what = _tried_at(ready, records, Places.anywhere(rows), [(order, whole)])
            if what is not None:
                twice = _differ(ready, ready.raw(taken(records, order)), whole, "when it was asked twice")
                found = None if twice else _by_place(ready, records, order[whole != answers[order]], rows)
                if found is None:
                    raise Refused(twice or what)
                ready.places[rows], answers = found
        except Refused:
            raise
        except (Exception, SystemExit) as error:
            raise Refused(ready.refusals.batch.format(error=type(error).__name__)) from None
    if asking.strict:
        what = _differ(ready, ready.row_by_row(ready.public, asking), answers[:PROBES], "when it was asked in another process")
        if what is not None:
            raise Refused(what)
    return answers


def _tried_at(ready: Ready, records: Any, places: Places, asked: Iterable[Asked]) -> tuple[np.ndarray, str | None]:
    """The answers to records at their places, and what is wrong where one changed."""
    homes, answers = places.homes(records), np.full(len(records), np.nan)
    for order, said in asked:
        home = places.at_home(homes[order])
        met, first = order[home], np.isnan(answers[order[home]])
        answers[met[first]] = said[home][first]
        if (what := _differ(ready, said[home], answers[met], "with its place in the batch")) is not None:
            return answers, what
    rng, extremes = np.random.default_rng(2), np.arange(PROBES, len(records))
    # Whatever a model makes of a batch (a mean, a largest value, ranks), it is something else for such one-sided company.
    for company in (extremes[: EXTREMES // 2], extremes[EXTREMES // 2 :]):
        chosen = rng.choice(company, places.rows)
        said, home = ready.raw(taken(records, chosen)), places.at_home(homes[chosen])
        what = _differ(ready, said[home], answers[chosen[home]], "with the other records of the batch")
        if what is not None:
            return answers, what
    # The last bits may depend on the size, which is the same for all people; more than that is no function of one row.
    small = np.concatenate([ready.raw(taken(records, np.arange(1))), ready.raw(taken(records, np.arange(1, SMALL)))])
    if np.mean(ready.apart(small, answers[:SMALL])) > 0.01:
        return answers, ready.refusals.changed.format(what="with the size of the batch")
    return answers, None


def _by_place(ready: Ready, records: Any, changed: np.ndarray, rows: int) -> tuple[Places, np.ndarray] | None:
    """Places that are alike, and the answers to records at their own; None unless last digits depend on that and nothing else."""
    telling = np.concatenate([np.unique(changed), np.arange(TELLING)])[:TELLING]
    everywhere = np.stack([ready.raw(taken(records, np.full(rows, one))) for one in telling])
    if any(ready.apart(said, np.full(rows, said[0])).any() for said in everywhere):
        return None
    rng = np.random.default_rng(3)
    for places in itertools.islice(repeating(everywhere), PERIODS):
        orders = itertools.chain(_everybody(places, records, rng), (_mixed(places, records, rng) for _ in range(ROUNDS)))
        asked = ((order, ready.raw(taken(records, order))) for order in orders)
        answers, what = _tried_at(ready, records, places, asked)
        if what is None:
            return places, answers
    return None


def _everybody(places: Places, records: Any, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Questions in which every record stands at home once, as people do."""
    for at, who in places.questions(places.homes(records)):
        order = rng.integers(0, len(records), places.rows)
        order[at] = who
        yield order


def _mixed(places: Places, records: Any, rng: np.random.Generator) -> np.ndarray:
    """A question of records at home, of which some are there much more often than others."""
    often = rng.exponential(size=len(records)) ** 3
    order, homes = rng.choice(len(records), places.rows, p=often / often.sum()), places.homes(records)
    for home in range(places.period) if places.period > 1 else ():
        members = np.flatnonzero(homes == home)
        if len(members):
            spots = np.arange(home, places.usable, places.period)
            order[spots] = rng.choice(members, len(spots), p=often[members] / often[members].sum())
    return order


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
