"""Whole requests, drawn: tables x schemas x units x relations x currencies x models x explainers, most of them possible.

Everything is drawn as a recipe (`Call`) and made when it is tried: what is wrong with it must be said then, by the package.
"""

import datetime
import decimal
import inspect
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from predictors import MISCHIEF, Cut, OnBlock, Smooth, fitted

import pellucid as pel

NAN, INF = math.nan, math.inf
SURROGATE = "\ud800"
SECRET = "SECRET-57"
"""In cells; it must never be seen."""


@dataclass(frozen=True, eq=False)
class Call:
    """Something to be made later, shown as the call that makes it."""

    what: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def made(self):
        return self.what(*map(made, self.args), **{name: made(value) for name, value in self.kwargs.items()})

    def __repr__(self):
        told = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.what.__name__}({', '.join(told)})"


def made(recipe):
    """What a recipe stands for; anything else as it is."""
    if isinstance(recipe, Call):
        return recipe.made()
    if isinstance(recipe, dict):
        return {name: made(part) for name, part in recipe.items()}
    return [made(part) for part in recipe] if isinstance(recipe, list) else recipe


def mostly(usual, odd, of=12):
    """The usual, and once in so many times the odd."""
    return st.sampled_from([usual] * (of - 1) + [odd]).flatmap(lambda chosen: chosen)


def any_of(*values):
    return st.sampled_from(values)


class Hostile:
    """A cell that cannot be looked at."""

    def __str__(self):
        raise ValueError(SECRET)

    __float__ = __repr__ = __hash__ = __eq__ = __str__


ODD_VALUES_OF_SETTINGS = (
    None, True, False, 0, -1, 1, 2, 3, 10**30, 0.5, 1.0, NAN, INF, "", "age", "range", SURROGATE, "a\0b", b"x", (), [], {},
    [1, 2], ["age"], {"age": 1}, 1j, np.float64(2), np.int64(3), object, datetime.date(2020, 1, 1), {1, 2}, [[1]], [None],
)  # fmt: skip
"""Given where something else was meant."""
ODD_SETTINGS = any_of(*ODD_VALUES_OF_SETTINGS)

ODD_CELLS = (
    None, NAN, INF, -INF, 1e308, -1e308, 10**40, -0.0, 5e-324, "", " ", "eleven", "1e999", "nan", "27,3", "0x10", "1_000", "١٢",
    SECRET, SURROGATE, "a\0b", b"\xff", True, decimal.Decimal("sNaN"), decimal.Decimal("1e500"), datetime.date(2020, 1, 1),
    [1, 2], (), {}, 1j, np.float32(0.1), np.int8(-3), np.datetime64("NaT"), pd.NA, pd.NaT, "x" * 300, np.array([1.0, 2.0]), 2**64,
    -(2**63),
)  # fmt: skip


NAMES = ("age", "bmi", "sex", "dose", "visits", "ward", "y")
ODD_NAMES = (
    "Größe", "a b", "$x$", "$x", "$\\frac{$", "x_{", "\\frac{", "_hidden", "value", "lower", "feature", "x", "r", "a=b", "100 %",
    "{x}", "<b>", "日本", "a\nb", "E", "pi", "lambda", "'", '"', ".", "ü" * 200, "person", " ",
)  # fmt: skip
WRONG_NAMES = ("", SURROGATE, "a\0b", 3)

RANGES = ((0, 1), (0, 100), (-5.0, 5.0), (10.5, 60), (-1e4, 1e4))
WHOLE_RANGES = ((0, 9), (17, 90), (0, 1), (-3, 3), (0, 100_000), (0, 1500))
ODD_RANGES = (
    (0, 1e299), (-4e299, 4e299), (0, 1e-279), (0, 1e-160), (1e150, 2e150), (1.0, 1 + 2**-52), (1e16, 1e16 + 4), (-5e-324, 1),
)  # fmt: skip
ODD_WHOLE_RANGES = ((0, 2**31), (0, 2**53), (2**53, 2**53 + 8), (0, 2**62), (-(2**63), 2**62), (-1, 0))
WRONG_RANGES = (
    (0, 0), (1, 0), (NAN, 1), (0, INF), ("0", "x"), (0, 10**400), (None, None), (0, 2**63), (-1e300, 1e300), (-1.7e308, 1.7e308),
    (0, 5e-324), (-1e-310, 1e-310),
)  # fmt: skip

VALUES = (["F", "M"], ["no", "yes"], ["none", "primary", "secondary", "tertiary"], ["N", "E", "S", "W"], [1, 2, 3], [False, True])
ODD_VALUES = (
    ["only"], list(range(40)), [0.5, 1.5, -2.5], ["ä", "ß", "日本"], ["", " "], ["1", 2], [1, "1"], ["$x", "$y^^$", "x^"],
    ["a\nb", "c"], ["<b>", "&amp;"], ["nan", "None", "inf"], [10**30, 1], [1e300, -1e300], ["x" * 2000, "y"], ["True", "False"],
    [0.1, 1 / 3], [str(i) for i in range(120)], ["age", "bmi"], [True], [2**63, 1],
)  # fmt: skip
WRONG_VALUES = ([], [None], ["a", "a"], [SURROGATE], "text", [[1]], [NAN, 1.0], ["a\0b", "c"], 3, [1, True])

SOURCES = any_of("", "form 12", "日本", "<b>&")


def numbers():
    real = st.tuples(mostly(any_of(*RANGES), any_of(*ODD_RANGES), 8), st.just(False))
    whole = st.tuples(mostly(any_of(*WHOLE_RANGES), any_of(*ODD_WHOLE_RANGES), 8), st.just(True))
    wrong = st.tuples(any_of(*WRONG_RANGES), st.booleans())
    missing = mostly(any_of(None, None, "exclude", "lo", NAN), any_of(0, 1, 0.5, -1e300, INF), 50)

    def number(drawn):
        (lo, hi), integer = drawn[0]
        missing = lo if drawn[1] == "lo" else drawn[1]
        return Call(pel.Number, (lo, hi), {"integer": integer, "missing": missing, "source": drawn[2]})

    return st.tuples(mostly(st.one_of(real, whole), wrong, 100), missing, SOURCES).map(number)


def categories():
    def category(drawn):
        values, ordered, missing, unknown = drawn
        declared = {"missing": missing, "unknown": unknown}
        last = {name: values[-1] for name, given in declared.items() if given == "last" and isinstance(values, list) and values}
        wrong = {name: "nowhere" for name, given in declared.items() if given == "wrong"}
        return Call(pel.Category, (values,), {"ordered": ordered, **last, **wrong})

    values = mostly(mostly(any_of(*VALUES), any_of(*ODD_VALUES), 3), any_of(*WRONG_VALUES), 100)
    declared = mostly(any_of("", "", "last"), st.just("wrong"), 150)
    return st.tuples(values, st.booleans(), declared, declared).map(category)


FORMULAS = ("Statistic", "AttributeShares")


@st.composite
def schemas(draw, kind):
    """Columns: most often two to five, of which a formula needs two numbers with names it can use."""
    odd = 20 if kind in FORMULAS else 5
    name = mostly(mostly(any_of(*NAMES), any_of(*ODD_NAMES), odd), any_of(*WRONG_NAMES), 200)
    names = draw(mostly(st.lists(name, min_size=2, max_size=5, unique=True), st.lists(name, min_size=1, max_size=1), 20))
    either = st.one_of(numbers(), numbers(), categories())
    return {name: draw(numbers() if kind in FORMULAS and i < 2 else either) for i, name in enumerate(names)}


def is_number(feature):
    return feature.what is pel.Number


def finite(value):
    return isinstance(value, int | float) and abs(value) <= 1.7e308


def declared_values(feature):
    """Values a column may well have, the one first that models stumble over."""
    if not is_number(feature):
        values = feature.args[0]
        return tuple(values) if isinstance(values, list) and values else ("F",)
    lo, hi = (float(v) if finite(v) else 0.0 for v in feature.args)
    inside = [lo + (hi - lo) * part if math.isfinite(hi - lo) else hi * part for part in (1 / 3, 0, 1, 0.5, 0.1, 0.77)]
    return tuple(float(round(v)) if feature.kwargs["integer"] else v for v in inside)


@dataclass(frozen=True)
class Table:
    """Cells in a form; which cells follows from a seed, so that a case is short to print."""

    columns: dict[str, Call]
    rows: int
    seed: int
    odd: float
    """The part of the cells that no schema declares."""
    equal: bool
    form: str
    ids: str | None
    left_out: bool = False
    """Whether the last column is not in the table."""

    def cells(self):
        rng = np.random.default_rng(self.seed)
        odd = [*ODD_CELLS, Hostile()]
        found = {}
        for name, feature in self.columns.items():
            values = declared_values(feature)
            drawn = [
                odd[rng.integers(len(odd))] if rng.random() < self.odd else values[rng.integers(len(values))]
                for _ in range(self.rows)
            ]
            # A table has no column of such a name: what is no text cannot be one, and polars ends the process for a NUL.
            found[as_text(name).replace("\0", "?")] = drawn[:1] * self.rows if self.equal else drawn
        if self.left_out:
            found.popitem()
        if self.ids is not None:
            found["person"] = [self.id_of(i, rng) for i in range(self.rows)]
        return found

    def id_of(self, i, rng):
        return {
            "few": int(i // 3),
            "one": 7,
            "null": None,
            "some null": None if i % 4 == 0 else f"p{i // 2}",
            "some null numbers": None if i % 4 == 0 else int(i // 2),
            "large": 10**18 + i,
            "text": f"p{i // 2}",
            "empty": "" if i % 3 == 0 else f"p{i}",
            "float": float(i // 2),
            "odd": ODD_CELLS[rng.integers(len(ODD_CELLS))],
        }[self.ids]

    def made_in(self, folder):
        """The table as somebody could hold it."""
        return FORMS[self.form](self.cells(), folder)


def as_number(cell):
    try:
        return float(cell)
    except Exception:
        return None


def as_text(cell):
    try:
        return None if cell is None else str(cell).encode("utf-8", "replace").decode()
    except Exception:
        return ""


def typed(cells):
    """An Arrow column with a type: of whole numbers where all cells are, of numbers where half of them are, else of text."""
    if all(cell is None or (type(cell) is int and abs(cell) < 2**63) for cell in cells):
        return pa.array(cells, pa.int64())
    found = [as_number(cell) for cell in cells]
    if sum(value is not None for value in found) * 2 >= max(len(cells), 1):
        return pa.array(found, pa.float64(), from_pandas=False)
    return pa.array([as_text(cell) for cell in cells], pa.string())


def arrow(cells, folder):
    return pa.table({name: typed(column) for name, column in cells.items()})


def chunked(cells, folder):
    whole = arrow(cells, folder)
    return pa.concat_tables([whole.slice(0, 1), whole.slice(1, 0), whole.slice(1)])


def dictionaries(cells, folder):
    whole = arrow(cells, folder)
    return pa.table({name: whole.column(name).dictionary_encode() for name in whole.column_names})


def narrow(cells, folder):
    """Types that are rarely used, as far as the cells fit into them."""
    made = {}
    for i, (name, column) in enumerate(cells.items()):
        kind = (pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(20, 3), pa.bool_(), pa.large_string(), pa.string_view())[
            i % 7
        ]
        column = typed(column)
        try:
            made[name] = column.cast(kind)
        except pa.ArrowException:
            made[name] = column
    return pa.table(made)


def nulls(cells, folder):
    """Columns without a type, except the last one."""
    names = list(cells)
    return pa.table({name: pa.nulls(len(cells[name])) if name in names[:-1] else typed(cells[name]) for name in names})


def parquet(cells, folder):
    path = os.path.join(folder, "people.parquet")
    pq.write_table(arrow(cells, folder), path, row_group_size=7)
    return path


FORMS = {
    "lists": lambda cells, folder: cells,
    "objects": lambda cells, folder: pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in cells.items()}),
    "frame": lambda cells, folder: arrow(cells, folder).to_pandas(),
    "categorical": lambda cells, folder: pd.DataFrame({n: pd.Categorical([as_text(v) for v in c]) for n, c in cells.items()}),
    "text": lambda cells, folder: pa.table({n: pa.array([as_text(v) for v in c], pa.string()) for n, c in cells.items()}),
    "arrays": lambda cells, folder: {name: typed(column).to_numpy(zero_copy_only=False) for name, column in cells.items()},
    "nulls": nulls,
    "arrow": arrow,
    "chunked": chunked,
    "dictionaries": dictionaries,
    "narrow": narrow,
    "polars": lambda cells, folder: pl.from_arrow(arrow(cells, folder)),
    "parquet": parquet,
}


@st.composite
def tables(draw, columns):
    return Table(
        columns,
        rows=draw(mostly(st.integers(5, 60), any_of(0, 1, 2, 300), 10)),
        seed=draw(st.integers(0, 10**6)),
        odd=draw(any_of(0.0, 0.1, 0.1, 0.5, 1.0)),
        equal=draw(mostly(st.just(False), st.just(True))),
        form=draw(any_of(*FORMS)),
        ids=draw(
            mostly(
                any_of(None, None, None, "few", "one", "some null", "large", "text", "empty"),
                any_of("null", "some null numbers", "float", "odd"),
                20,
            )
        ),
        left_out=draw(mostly(st.just(False), st.just(True), 80)),
    )


@dataclass(frozen=True, eq=False)
class World:
    """What a request can be about."""

    columns: dict[str, Call]
    model: Call
    used: tuple[str, ...]
    """The columns the model is given."""
    clustering: Call

    @property
    def names(self):
        return list(self.columns)

    @property
    def numbers(self):
        return [name for name, feature in self.columns.items() if is_number(feature)]

    @property
    def schema(self):
        return Call(pel.Schema, (self.columns,))


OUTPUTS = ((0, 1), (0, 1), (0, 1), (0, 1), (-3.0, 7.5), (0, 1000))
ODD_OUTPUTS = (
    (0, 1e-300), (0, 5e-324), (-1e300, 1e300), (-1.7e308, 1.7e308), (1e16, 1e16 + 4), (0, 1e-150), (0, 1e160),
    None, (1, 0), (0, NAN), "x",
)  # fmt: skip
PROVENANCE = any_of("other data", "other data", "this data", Call(pel.PrivateTraining, (1.0, 1e-6)))


def traps(columns, used):
    """A value of the first number a model is given, or none."""
    first = columns[used[0]]
    return any_of(None, declared_values(first)[0]) if is_number(first) else st.none()


def holes(columns, used):
    """Whether a model may be given a NaN."""
    return any(is_number(columns[name]) and columns[name].kwargs["missing"] is NAN for name in used)


@st.composite
def models(draw, columns, used):
    linear = () if holes(columns, used) else ("linear", "logistic")
    kind = draw(any_of("smooth", "smooth", "smooth", "trapped", "trapped", "tree", "forest", "pipeline", *linear))
    output = draw(mostly(any_of(*OUTPUTS), any_of(*ODD_OUTPUTS), 16))
    options = {"output": output, "features": list(used), "trained_on": draw(PROVENANCE)}
    if kind in ("smooth", "trapped"):
        gives = draw(
            mostly(
                any_of("float64", "float64", "float32", "list", "column", "series", "constant"), any_of("short", "bool", "U9"), 20
            )
        )
        usable = isinstance(output, tuple) and all(finite(v) for v in output)
        lo, hi = output if usable else (0.0, 1.0)
        trap = draw(traps(columns, used)) if kind == "trapped" else None
        predictor = Smooth(lo, hi, gives, trap, draw(any_of(*MISCHIEF)))
        return Call(pel.Model, (predictor,), options | {"input": draw(any_of(None, "codes", "codes", "frame"))})
    predictor = Call(fitted, (kind, Call(pel.Schema, (columns,)), used))
    return Call(pel.Model, (predictor,), options | {"input": "frame" if kind == "pipeline" else "codes"})


@st.composite
def clusterings(draw, columns, used):
    labels = draw(
        mostly(
            any_of((0, 1), (0, 1), ("low", "high"), (0, 1, 2)),
            any_of((0,), ("$x", "日本"), (SURROGATE, 1), (), (0.5, "0.5"), (1, True)),
            20,
        )
    )
    if holes(columns, used) or draw(any_of(True, True, True, False)):
        at = declared_values(columns[used[0]])[3 % len(declared_values(columns[used[0]]))]
        predictor = Cut(labels or (0,), at if finite(at) else 0.0, draw(traps(columns, used)), draw(any_of(*MISCHIEF)))
    else:
        predictor = Call(fitted, ("k-means", Call(pel.Schema, (columns,)), used))
    options = {"clusters": list(labels), "features": list(used), "input": "codes", "trained_on": draw(PROVENANCE)}
    return Call(pel.Clustering, (predictor,), options)


@st.composite
def worlds(draw, kind):
    columns = draw(schemas(kind))
    # A target is left over; pairs of features need two.
    least = {"PermutationImportance": 1, "FeatureInteraction": 0}.get(kind, draw(any_of(0, 1)))
    used = tuple(columns)[: max(len(columns) - least, 1)]
    return World(columns, draw(models(columns, used)), used, draw(clusterings(columns, used)))


def values_of(feature):
    return mostly(any_of(*declared_values(feature)), any_of(*(cell for cell in ODD_CELLS if cell is not SECRET)), 30)


def records(world):
    """A record to ask about; some lack a column, and some have one too many."""
    given = {name: values_of(world.columns[name]) for name in world.used}
    usual = st.fixed_dictionaries(given)
    some = st.fixed_dictionaries({}, optional=given)
    return mostly(usual, st.one_of(some, ODD_SETTINGS, usual.map(lambda record: record | {"nowhere": 1})), 30)


def backgrounds(world):
    return mostly(st.lists(records(world), min_size=1, max_size=3), st.one_of(records(world), ODD_SETTINGS), 20)


def one_or_several(names):
    several = st.lists(any_of(*names), min_size=1, max_size=3, unique=True)
    return mostly(st.one_of(any_of(*names), any_of(*names), several), any_of("nowhere", [], ["nowhere"], names * 2), 30)


def along(world):
    return one_or_several(list(world.used))


def points_on(world):
    """Numbers of points, or points of one of the columns."""
    listed = any_of(*world.names).flatmap(lambda name: st.lists(values_of(world.columns[name]), min_size=1, max_size=4))
    return mostly(any_of(2, 3, 5, 9), st.one_of(listed, any_of(1000, np.int64(4), np.array([1.0, 2.0]))), 6)


def formulas(world):
    names = world.numbers or world.names
    a, b = st.sampled_from(names), st.sampled_from(names)
    patterns = any_of(
        "{a}", "{a} + {b}", "{a}*{b}", "{a}**2", "[{a}, {b}]", "{a} - 3*{b}", "sqrt(1 + {a}**2)", "exp({a}/100)",
        "1/(1 + {b}**2)", "{a}*{b} + {b}**2", "tanh({a})", "abs({a} - {b})",
    )  # fmt: skip
    odd = any_of(
        "1/{a}", "log({a})", "", "1", "{a} +", "nowhere", "exp(exp({a}))", "{a}**{a}", "{a}*1e400", "sqrt({a})", "f({a})"
    )
    return st.builds(lambda pattern, a, b: pattern.format(a=a, b=b), mostly(patterns, odd, 12), a, b)


def settings(required=None, **optional):
    return st.fixed_dictionaries(required or {}, optional=optional)


def partial_dependence(world):
    return ((world.model, along(world)), settings(points=points_on(world), smooth=any_of(0, 1, 3)))


def accumulated_effects(world):
    return ((world.model, along(world)), settings(intervals=any_of(1, 3, 11, 50)))


def distribution(world):
    bins = mostly(any_of(1, 4, 20, 200), any_of([0, 1, 2], [0.5, 1e300], [-INF, INF], [NAN, 1], [5], 10_000, "x"), 6)
    return ((one_or_several(world.names),), settings(bins=bins))


def completeness(world):
    return ((), settings(feature=mostly(st.none(), one_or_several(world.names), 2)))


def statistic(world):
    return ((formulas(world),), settings(aggregate=any_of("mean", "sum")))


def attribute_shares(world):
    a, b = (world.names * 2)[:2]
    pairs = any_of(f"{a}*{b} + {b}**2", f"{a} - 3*{b}", f"sqrt(1 + {a}**2) + tanh({b})", f"[{a}, {a}*{b}]")
    return ((mostly(pairs, formulas(world), 5),), settings())


def permutation_importance(world):
    targets = [name for name in world.names if name not in world.used] or world.names
    groups = st.permutations(world.used).flatmap(lambda names: any_of(names, names[:1], [names[:2], *names[2:]]))
    positive = any_of(*declared_values(world.columns[targets[-1]]))
    return (
        (world.model, any_of(*targets)),
        settings(
            {"positive": positive} if not is_number(world.columns[targets[-1]]) else {},
            loss=any_of("squared", "absolute", "log", "0-1"),
            features=mostly(groups, any_of([], [[]], ["nowhere"], [*world.used, world.used]), 20),
            ranking=st.booleans(),
            repeats=any_of(1, 2, 5),
            cap=mostly(any_of("range", 0.5, 1), any_of(0, 1e-300, 1e300, "x", NAN), 20),
        ),
    )


def feature_interaction(world):
    feature = mostly(any_of(*world.used), any_of("nowhere", None), 10)
    return ((world.model,), settings(feature=feature, points=any_of(2, 3, 5), ranking=st.booleans()))


def cluster_histograms(world):
    shares = any_of({"choice": 0.5, "inside": 0.25, "whole": 0.25}, {"choice": 0.4, "inside": 0.3, "whole": 0.3})
    weights = any_of({"interest": 1}, {"interest": 0.5, "sufficiency": 0.5, "diversity": 0}, {"diversity": 1.0})
    return (
        (world.clustering,),
        settings(
            per_cluster=mostly(st.just(1), any_of(2, 8)),
            weights=mostly(weights, any_of({"x": 1}, {"interest": -1, "diversity": 2}), 20),
            attributes=one_or_several(world.names),
            method=any_of("joint", "two-stage"),
            candidates=any_of(1, 2, 3),
            bins=mostly(any_of(2, 5), any_of({"age": [0, 50, 100]}, {"bmi": 3}, {"sex": 2}), 6),
            split=mostly(shares, any_of({"choice": 1}, {}, {"choice": NAN}), 20),
        ),
    )


def private_kmeans(world):
    return (
        (mostly(any_of(2, 3), any_of(1, 100, 20), 8), one_or_several(world.names)),
        settings(iterations=any_of(1, 2, 5), start=any_of("public", "grid"), seed=any_of(0, 7)),
    )


LIMITS = Call(pel.Limits, (), {"workers": 1})


def uses(world):
    """What a function of blocks was made from."""
    return any_of("nothing", [world.model], [Call(pel.Derived, ("forest",), {"trained_on": "this data"})])


def on_blocks(world, places, gives):
    """A function that answers for these places, and may fail on the blocks that begin with a large number."""
    first = next(iter(world.columns.values()))
    middle = declared_values(first)[3] if is_number(first) else 0.0
    return st.builds(OnBlock, st.just(places), any_of(*gives), any_of(None, None, middle), any_of("raise", "exit", "nan"))


@st.composite
def plots(draw, world):
    """A function and the places it answers for: some of its own, or those of a column."""
    name = draw(any_of(*world.names))
    if draw(st.booleans()):
        places = draw(mostly(any_of((0.0, 0.5, 1.0), ("a", "b"), (1, 2, 3)), any_of((), (1, "1"), (SURROGATE,), (2, 1)), 20))
        return draw(on_blocks(world, places, ("list", "array", "mapping", "series"))), places
    if is_number(world.columns[name]):
        return draw(on_blocks(world, (0.0, 0.5, 1.0), ("pair", "mapping", "series"))), name
    return draw(on_blocks(world, declared_values(world.columns[name]), ("list", "array", "mapping", "series"))), name


def private_plot(world):
    outputs = mostly(any_of((0, 1), (-1, 1), (0, 1000)), any_of((1, 0), (0, 1e-300), (0, 5e-324), "x"), 20)
    more = settings(
        {"output": outputs, "limits": st.just(LIMITS)},
        blocks=any_of(1, 2, 5),
        default=any_of(0, 0.5, 1),
        label=any_of("", "$x", "日本"),
        ylabel=any_of("", "mean"),
        uses=uses(world),
    )
    return plots(world), more


def private_ranking(world):
    items = ("a", "b", "c")
    function = on_blocks(world, items, ("list", "array", "mapping", "series", "names"))
    odd = any_of(("a", "b"), ("a",), ("a", "a"), ("$x", "日本", "c"), (SURROGATE, "b"), "abc")
    return (
        (function, mostly(st.just(items), odd, 12)),
        settings({"limits": st.just(LIMITS)}, blocks=any_of(1, 2, 5), uses=uses(world)),
    )


def shapley_settings(world, **more):
    return dict(
        method=mostly(any_of(None, None, "enumeration", "permutations", "kernel"), any_of("linear", "trees", "x"), 8),
        permutations=any_of(2, 4),
        samples=any_of(16, 64),
        seed=any_of(0, 5),
        certified=mostly(st.none(), any_of((0.0, 1.0), (-1e9, 1e9), (1, 0), "x"), 16),
        **more,
    )


def about_record(world):
    """The settings that say which record is meant."""
    known = settings({"record": records(world)}, label=any_of("", "me", "日本"))
    return mostly(known, settings({"public_background": backgrounds(world)}), 4)


def shap_values(world):
    more = settings(**shapley_settings(world, efficient=st.booleans()))
    return ((world.model,), joined(about_record(world), more))


def shap_ranking(world):
    more = shapley_settings(
        world,
        k=mostly(any_of(1, 2, 5), st.just(1000)),
        by=any_of("size", "signed"),
        magnitudes=st.booleans(),
        split=mostly(any_of(0.2, 0.5), any_of(0, 1, 1e-9), 8),
        how=any_of(None, "picks", "values"),
    )
    return ((world.model,), joined(about_record(world), settings(**more)))


def of_people(world, **more):
    return settings(
        {"public_background": backgrounds(world)},
        **shapley_settings(world, cap=mostly(any_of("range", 0.3, 1), any_of(0, 1e-280, 1e300, "x", NAN), 8), **more),
    )


def shap_importance(world):
    return ((world.model,), of_people(world))


def shap_dependence(world):
    return ((world.model, any_of(*world.used)), of_people(world, points=any_of(2, 5, 20)))


def local_settings(world, **more):
    plain = all(is_number(world.columns[name]) for name in world.used)
    return settings(
        weight=mostly(
            any_of("stable", "gaussian", "cut-off"),
            mostly(any_of("1/(1 + r**4)", "exp(-r)"), any_of("r", "-1", "x + r", "1/r"), 4),
            4,
        ),
        bandwidth=mostly(any_of(0.5, 1.0, 2.0), any_of(0, 1e-3, NAN, 1e9), 24),
        radius=mostly(any_of(0.5, 1.0, 3), any_of(0, -1, 1e-300, 1e300), 24),
        centred=st.booleans(),
        label=any_of("", "日本"),
        shape=mostly(st.just((1, len(world.used)) if plain else None), any_of((2, 2), (0, 1), "x"), 24),
        **more,
    )


def local_linear(world):
    return ((world.model,), joined(settings({"record": records(world)}), local_settings(world)))


def local_stream(world):
    methods = any_of("one-shot", "descent", "adaptive", "enhanced")
    common = local_settings(world, questions=any_of(1, 2, 4), within=any_of(0, 0.1, 0.5))
    together, alone = settings(method=methods, steps=any_of(2, 5, 20)), settings({"accounting": st.just("individual")})
    return ((world.model,), joined(common, mostly(together, alone, 4)))


def joined(*parts):
    return st.tuples(*parts).map(lambda found: {name: value for part in found for name, value in part.items()})


EXPLAINERS = {
    "PartialDependence": partial_dependence,
    "AccumulatedEffects": accumulated_effects,
    "Distribution": distribution,
    "Statistic": statistic,
    "AttributeShares": attribute_shares,
    "Completeness": completeness,
    "PermutationImportance": permutation_importance,
    "FeatureInteraction": feature_interaction,
    "ClusterHistograms": cluster_histograms,
    "PrivateKMeans": private_kmeans,
    "PrivatePlot": private_plot,
    "PrivateRanking": private_ranking,
    "ShapValues": shap_values,
    "ShapRanking": shap_ranking,
    "ShapImportance": shap_importance,
    "ShapDependence": shap_dependence,
    "LocalLinear": local_linear,
}


@st.composite
def explainers(draw, kind, world, family):
    """One explainer; once in a while one of its settings is not what was meant."""
    kind = getattr(pel, kind)
    given, settings = family(world)
    if isinstance(given, st.SearchStrategy):
        given = draw(given)
    args = tuple(draw(value) if isinstance(value, st.SearchStrategy) else value for value in given)
    kwargs = draw(settings)
    if draw(mostly(st.just(False), st.just(True), 30)):
        places = list(inspect.signature(kind).parameters)
        name, odd = draw(any_of(*places)), draw(ODD_SETTINGS)
        if name in places[: len(args)]:
            args = tuple(odd if place == name else value for place, value in zip(places, args))
        else:
            kwargs = {**kwargs, name: odd}
    return Call(kind, args, kwargs)


def budgets(kind):
    """In ε or in ρ; a stream can do more with ρ."""
    epsilon = mostly(any_of(1.0, 2, 0.1, 10.0, 50.0), any_of(1000, 1e-6, 0, NAN, 1001, "1"), 60)
    delta = mostly(any_of(*[0.0] * (1 if kind == "stream" else 3), 1e-6, 1e-6), any_of(1e-300, 0.5, 1, -1e-6, 5e-324), 60)
    return st.builds(lambda *given: Call(pel.Budget, given), epsilon, delta)


COSTS = mostly(
    any_of({"share": 1}, {"share": 1}, {"share": 0.5}, {"share": Fraction(1, 3)}, {"epsilon": 0.1}, {"epsilon": 0.05}),
    any_of(
        {}, {"rho": 0.001}, {"epsilon": 1e-9}, {"epsilon": 1e-3}, {"share": 2}, {"epsilon": NAN}, {"epsilon": 10**9},
        {"share": 1e-6}, {"epsilon": 0.1, "share": 1}, {"epsilon": "x"}, {"share": "1/3"}, {"share": -1}, {"epsilon": 3e5},
    ),
    24,
)  # fmt: skip
TEXTS = mostly(any_of("", "Ada", "日本"), any_of(SURROGATE, "a\0b", 3, None, "x" * 10_000), 100)


@st.composite
def units(draw, table):
    rows = draw(any_of(1, 2, 3, 50))
    if table.ids is None:
        several = Call(pel.Unit, (), {"max_rows": rows})
        return draw(mostly(any_of(None, None, None, several), any_of(Call(pel.Unit, ("person",)), "person"), 60))
    odd = any_of(Call(pel.Unit, ("nowhere",)), Call(pel.Unit, ("person", 0)), Call(pel.Unit, (next(iter(table.columns)), 2)))
    return draw(mostly(st.just(Call(pel.Unit, ("person", rows))), odd, 60))


@dataclass(frozen=True)
class Case:
    """A table, a session, a request, and what it may cost."""

    kind: str
    table: Table
    schema: Call
    session: dict[str, Any]
    explainer: Call
    cost: dict[str, Any]
    asked: dict[str, Any]
    """By whom and what for."""
    questions: tuple[Any, ...] = ()
    """Of a stream: the records asked about, one after another."""
    durable: bool = True
    """Whether the ledger is a file."""


@st.composite
def cases(draw, kinds=(*EXPLAINERS, "stream")):
    kind = draw(any_of(*kinds))
    world = draw(worlds(kind))
    explainer = draw(explainers("LocalLinear" if kind == "stream" else kind, world, EXPLAINERS.get(kind, local_stream)))
    table = draw(tables(world.columns))
    session = {
        "budget": draw(budgets(kind)),
        "neighbors": draw(mostly(any_of("replace", "add-remove"), any_of("both", None), 100)),
        "unit": draw(units(table)),
        "expected_rows": draw(mostly(any_of(None, 100, 1), any_of(10**9, 0, 1.5, "x", True), 40)),
        "strict": draw(mostly(st.just(False), st.just(True), 20)),
        "name": draw(mostly(any_of("ward", "日本", "ward 7"), any_of("", " ", SURROGATE, None, 3, "a\0b"), 100)),
    }
    questions = draw(st.lists(records(world), min_size=1, max_size=4)) if kind == "stream" else []
    asked = {"by": draw(TEXTS), "purpose": draw(TEXTS)}
    return Case(
        kind,
        table,
        world.schema,
        session,
        explainer,
        draw(COSTS),
        asked,
        tuple(questions),
        draw(mostly(st.just(True), st.just(False), 8)),
    )
