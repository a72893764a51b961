"""What is public: the columns, their bounds and categories, the unit that is protected and the neighbour relation.

Nothing here is ever read from the data. A cell that is missing, unreadable, unknown or out of range becomes a declared
value or is left out, as its column says, so the data cannot widen a domain, change a shape or raise an error.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ..errors import LoadError, SchemaError
from .fingerprint import fingerprinted_as
from .frozen import settle
from .texts import storable

Relation = Literal["replace", "add-remove"]
RELATIONS: tuple[str, ...] = get_args(Relation)

Columns = dict[str, np.ndarray]
"""Columns in their inner form: numbers as float64, categories as positions in the declared order."""

EXCLUDE = "exclude"
"""The policy of a column whose records are left out of what is counted of it where their cell says nothing."""

FOR_PEOPLE = ("label", "unit")
"""Words of a declaration that only pictures and tables use: they change no number, so they are no part of requests."""

FINE, MISSING, UNREADABLE, OUTSIDE = range(4)
"""Conditions of a cell: as declared; empty; a text that is no number, or a value that is not declared; a number out of bounds."""


SAID_BY_CELLS = ("category", "missing", "unknown", "clusters")
"""Keys of a file whose values are compared with what is in the data."""


def check_relation(neighbors: str) -> Relation:
    if neighbors not in RELATIONS:
        raise SchemaError(f"neighbors={neighbors!r} is not a neighbour relation; use 'replace' or 'add-remove'.")
    return neighbors  # type: ignore[return-value]


def _finite(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise SchemaError(f"{name}={value!r} is not a number; give a finite number.") from None
    if not math.isfinite(number):
        raise SchemaError(f"{name}={value!r} is not finite; give the bound the documentation states.")
    return number


@fingerprinted_as("pellucid.schema", "Number")
@dataclass(frozen=True)
class Number:
    """A numeric column with public bounds; values outside are moved to the nearest bound.

    >>> Number(17, 90, integer=True, source="form 12").missing
    'exclude'
    """

    lo: float
    """The smallest value."""
    hi: float
    """The largest value."""
    integer: bool = False
    """Whether all values are whole numbers."""
    missing: float | str | None = None
    """What becomes of a cell that is missing or unreadable. "exclude", the default: its record is not counted in statistics,
    histograms and losses of the column. A number: it counts as that. `float("nan")`: a NaN for models, and a cell of its own in
    histograms. Models need a value; where none is declared they are given the middle of the range."""
    source: str = ""
    """Where the bounds come from; printed on every certificate that used them."""
    label: str = ""
    """What people call the column ("chronic conditions"), for pictures and tables; by default its name."""
    unit: str = ""
    """What it is measured in ("€ a year"), for pictures and tables."""

    def __post_init__(self) -> None:
        _check_words(self.label, self.unit)
        lo, hi = _finite("lo", self.lo), _finite("hi", self.hi)
        if lo >= hi:
            raise SchemaError(f"Number({self.lo!r}, {self.hi!r}): the lower bound must be below the upper bound; swap them.")
        if not 1e-280 < hi - lo < 1e300 or (self.integer and not -(2.0**63) <= lo < hi < 2.0**63):
            raise SchemaError(
                f"Number({self.lo!r}, {self.hi!r}): too wide or too narrow a range to compute with; change its unit."
            )
        if self.integer and (lo != int(lo) or hi != int(hi)):
            raise SchemaError(
                f"Number({self.lo!r}, {self.hi!r}, integer=True): the bounds of an integer column must be integers."
            )
        settle(self, lo=lo, hi=hi, missing=_number_policy(self.missing, lo, hi))

    @property
    def excludes(self) -> bool:
        """Whether a record whose cell says nothing is left out of what is counted of this column."""
        return self.missing == EXCLUDE

    @property
    def stands_in(self) -> bool:
        """Whether a value, or NaN, is declared that stands for a missing one."""
        return not self.excludes

    @property
    def fill(self) -> float:
        """What a missing or unreadable cell is to whoever needs a value: the declared one, or the middle of the range."""
        if not self.excludes:
            return float(self.missing)  # type: ignore[arg-type]
        middle = (self.lo + self.hi) / 2
        return float(math.ceil(middle)) if self.integer else middle

    @property
    def fills_nan(self) -> bool:
        """Whether a missing cell stays a NaN: models are asked with it, histograms have a cell for it."""
        return math.isnan(self.fill)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a cell can be but fine, in the order of MISSING, UNREADABLE, OUTSIDE."""
        return "missing", "unreadable", "out of range"

    def absent(self, condition: np.ndarray) -> np.ndarray:
        """Which cells say nothing, by their condition: one out of range says that the nearest bound is right."""
        return np.isin(condition, (MISSING, UNREADABLE))

    def policy(self, left_out: bool) -> str:
        """What becomes of cells that are not as declared, for the certificate; `left_out` where they are not counted."""
        if left_out:
            what = "a record whose cell is missing or unreadable is not counted"
        elif self.fills_nan:
            what = "a missing or unreadable cell is a NaN for models and a cell of its own in histograms"
        else:
            default = ", the middle of the range: no value is declared" if self.excludes else ""
            what = f"a missing or unreadable cell counts as {self.fill:.12g}{default}"
        return f"{what}; a value outside [{self.lo:g}, {self.hi:g}] counts as the nearest bound"

    @property
    def levels(self) -> int | None:
        """How many values the column can take, or None for real numbers."""
        return int(self.hi - self.lo) + 1 if self.integer else None

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Public records: uniform over the domain, with both bounds and the missing value among them."""
        drawn = rng.uniform(self.lo, self.hi, size)
        if self.integer:
            drawn = np.round(drawn)
        special = rng.choice(np.array([self.lo, self.hi, self.fill], dtype=float), size)
        return np.where(rng.random(size) < 0.15, special, drawn)

    def __getstate__(self) -> dict[str, Any]:
        return _state(self)

    def value_at(self, position: float) -> Any:
        """The value at a position, in the user's form."""
        return int(position) if self.integer and math.isfinite(position) else float(position)

    def values_at(self, positions: np.ndarray) -> np.ndarray:
        """A column in the user's form. Its type follows the declaration: one missing cell must not change everybody's column."""
        return positions.astype(np.int64) if self.integer and not self.fills_nan else positions

    def position(self, value: Any) -> float:
        """The inner form of a value given by the user."""
        number = _finite("value", value)
        if not self.lo <= number <= self.hi:
            raise SchemaError(f"{value!r} lies outside the declared bounds [{self.lo:g}, {self.hi:g}].")
        return number

    def to_dict(self) -> dict[str, Any]:
        whole = (lambda v: int(v)) if self.integer else (lambda v: v)
        missing = EXCLUDE if self.excludes else "nan" if self.fills_nan else whole(self.fill)
        entry: dict[str, Any] = {"number": [whole(self.lo), whole(self.hi)], "missing": missing}
        if self.integer:
            entry["integer"] = True
        if self.source:
            entry["source"] = self.source
        return entry | _words(self)


def _number_policy(missing: Any, lo: float, hi: float) -> float | str:
    if missing is None or (isinstance(missing, str) and missing == EXCLUDE):
        return EXCLUDE
    try:
        value = float(missing)
    except (TypeError, ValueError):
        raise SchemaError(f"missing={missing!r}: give a number, float('nan'), or 'exclude' to leave such records out.") from None
    if not math.isnan(value) and not lo <= value <= hi:
        raise SchemaError(f"missing={value!r} lies outside [{lo:g}, {hi:g}]; choose a value inside, float('nan') or 'exclude'.")
    return value


@fingerprinted_as("pellucid.schema", "Category")
@dataclass(frozen=True)
class Category:
    """A column with declared values.

    >>> Category(["F", "M"], missing="M").position("M")
    1
    """

    values: tuple[Any, ...]
    """What the column may say: text, numbers or booleans."""
    ordered: bool = False
    """Whether the order of the values means something (education levels), which accumulated effects use."""
    missing: Any = None
    """What becomes of an empty cell. "exclude", the default: its record is not counted in histograms and losses of the column.
    One of the declared values, which may be one for this purpose ("unknown"): it counts as that. Models need a value; where none
    is declared they are given the first one."""
    unknown: Any = None
    """What becomes of a value that is not declared: by default the same as of an empty cell."""
    source: str = ""
    """Where the values come from; printed on every certificate that used them."""
    label: str = ""
    """What people call the column, for pictures and tables; by default its name."""
    unit: str = ""
    """What it is measured in, for pictures and tables."""

    def __init__(
        self,
        values: Sequence[Any],
        ordered: bool = False,
        missing: Any = None,
        unknown: Any = None,
        source: str = "",
        label: str = "",
        unit: str = "",
    ):
        _check_words(label, unit)
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray | range):
            raise SchemaError(f"Category({values!r}): give the declared values as a list, for example Category(['no', 'yes']).")
        listed = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
        if not listed:
            raise SchemaError("Category([]): declare at least one value.")
        if not all(isinstance(v, Hashable) for v in listed):
            raise SchemaError("Category: values must be text, numbers or booleans, not lists or the like.")
        if len(set(listed)) < len(listed):
            raise SchemaError(f"Category({list(listed)!r}): a value is declared twice (1, 1.0 and True count as equal).")
        if any(v is None or (isinstance(v, float) and not math.isfinite(v)) for v in listed):
            raise SchemaError("Category: None and NaN are not values; say with missing= what an empty cell becomes.")
        if not all(isinstance(v, str | int | float | bool) for v in listed):
            raise SchemaError("Category: values must be text, numbers or booleans.")
        if missing is None and EXCLUDE in listed:
            raise SchemaError(
                f"Category: {EXCLUDE!r} is a declared value here; say with missing= which one an empty cell becomes."
            )
        missing = EXCLUDE if missing is None else missing
        unknown = missing if unknown is None else unknown
        for name, value in (("missing", missing), ("unknown", unknown)):
            if value not in listed and not (isinstance(value, str) and value == EXCLUDE):
                raise SchemaError(
                    f"{name}={value!r} is not one of the declared values {list(listed)!r}; add it, choose one of them, or say "
                    f"{EXCLUDE!r} to leave such records out."
                )
        settle(self, values=listed, ordered=bool(ordered), missing=missing, unknown=unknown, source=source)
        settle(self, label=label, unit=unit)

    @property
    def excludes(self) -> bool:
        """Whether a record whose cell says nothing is left out of what is counted of this column."""
        return self._leaves_out(self.missing) or self._leaves_out(self.unknown)

    def _leaves_out(self, policy: Any) -> bool:
        return policy not in self.values

    @property
    def stands_in(self) -> bool:
        """Whether a value is declared that stands for a missing one."""
        return not self._leaves_out(self.missing)

    @property
    def fill(self) -> int:
        """What an empty cell is to whoever needs a value, as a position: the declared one, or the first."""
        return 0 if self._leaves_out(self.missing) else self.position(self.missing)

    @property
    def fill_unknown(self) -> int:
        """What a value that is not declared is to whoever needs one."""
        return 0 if self._leaves_out(self.unknown) else self.position(self.unknown)

    @property
    def fills_nan(self) -> bool:
        return False

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a cell can be but fine, in the order of MISSING and UNREADABLE."""
        return "missing", "not declared"

    def absent(self, condition: np.ndarray) -> np.ndarray:
        """Which cells say nothing, by their condition and the policy for it."""
        policies = ((MISSING, self.missing), (UNREADABLE, self.unknown))
        return np.isin(condition, [what for what, policy in policies if self._leaves_out(policy)])

    def policy(self, left_out: bool) -> str:
        """What becomes of cells that are not as declared, for the certificate; `left_out` where they are not counted."""
        said = []
        for what, policy, fill in (
            ("an empty cell", self.missing, self.fill),
            ("a value that is not declared", self.unknown, self.fill_unknown),
        ):
            open_ = self._leaves_out(policy)
            default = ", the first value: no other is declared" if open_ else ""
            said.append(
                f"a record with {what} is not counted"
                if open_ and left_out
                else f"{what} counts as {self.value_at(fill)!r}{default}"
            )
        return "; ".join(said)

    @property
    def levels(self) -> int:
        return len(self.values)

    @property
    def numeric(self) -> bool:
        """Whether the values themselves are numbers a model can take as they are."""
        return not any(isinstance(v, str) for v in self.values)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.integers(0, len(self.values), size).astype(float)

    def __getstate__(self) -> dict[str, Any]:
        return _state(self)

    def value_at(self, position: float) -> Any:
        """The value at a position, in the user's form."""
        return self.values[int(position)]

    def values_at(self, positions: np.ndarray) -> np.ndarray:
        """A column in the user's form: the declared values."""
        return np.array(self.values, dtype=None if self.numeric else object)[positions.astype(np.intp)]

    def position(self, value: Any) -> int:
        try:
            return self.values.index(value)
        except (ArithmeticError, ValueError):
            raise SchemaError(f"{value!r} is not one of the declared values {list(self.values)!r}.") from None

    def to_dict(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"category": list(self.values), "missing": self.missing, "unknown": self.unknown}
        if self.ordered:
            entry["ordered"] = True
        if self.source:
            entry["source"] = self.source
        return entry | _words(self)


def Boolean(missing: bool | str | None = None, source: str = "", label: str = "") -> Category:
    """A yes/no column: a category of the values False and True.

    `missing` is what an empty cell becomes; left out, its record is not counted.
    `source` says where the declaration comes from; printed on every certificate that used it.
    `label` is what people call the column, for pictures and tables.

    >>> Boolean().values
    (False, True)
    """
    return Category([False, True], missing=missing, source=source, label=label)


def _check_words(label: Any, unit: Any) -> None:
    for name, word in (("label", label), ("unit", unit)):
        if not isinstance(word, str) or not storable(word) or any(ord(c) < 32 for c in word):
            raise SchemaError(f"{name}={word!r}: give one line of text, for example label='yearly income' or unit='€ a year'.")


def _words(feature: Number | Category) -> dict[str, str]:
    """What the declaration says for people, where it says something."""
    return {name: word for name in FOR_PEOPLE if (word := getattr(feature, name))}


def _state(feature: Number | Category) -> dict[str, Any]:
    """What is pickled: words for people where there are some, so that columns without them have the bytes they always had."""
    return {name: value for name, value in vars(feature).items() if value or name not in FOR_PEOPLE}


Feature = Number | Category


@fingerprinted_as("pellucid.schema", "Unit")
@dataclass(frozen=True)
class Unit:
    """Whom the guarantee protects, when one person may own several rows. Claims: person-average, group-rows

    >>> Unit("patient_id", max_rows=5).text
    'all rows of one patient_id (at most 5 kept, averaged)'
    """

    column: str | None = None
    """The column that says whose a row is: whole numbers or text, not floats, compared exactly ("1" and "01" are two people).
    Rows without an id, or with one that is empty or blank, are dropped. Without a column nothing can be enforced: noise is
    scaled up `max_rows` times and certificates are conditional on nobody having more rows than that."""
    max_rows: int = 1
    """How many rows of a person count. With a column so many are kept, chosen independently of their content, and averaged,
    so that bounds do not grow."""

    def __post_init__(self) -> None:
        if self.column is not None and not isinstance(self.column, str):
            raise SchemaError(f"Unit({self.column!r}): give the name of the id column, or max_rows= alone.")
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or not 1 <= self.max_rows <= 1_000_000:
            raise SchemaError(f"Unit(max_rows={self.max_rows!r}): give a whole number from 1 to 1,000,000.")

    @property
    def rows_per_unit(self) -> int:
        """How many contributions one person can have in a total."""
        return 1 if self.column else self.max_rows

    @property
    def text(self) -> str:
        if self.column:
            return f"all rows of one {self.column} (at most {self.max_rows} kept, averaged)"
        return "one row" if self.max_rows == 1 else f"up to {self.max_rows} rows of one person (not enforced)"


@fingerprinted_as("pellucid.schema", "Schema")
class Schema(Mapping[str, Feature]):
    """The declared columns, in order.

    `features` are the columns by name: a `Number` or a `Category` (or `Boolean()`) each.

    >>> schema = Schema({"age": Number(17, 90, integer=True), "sex": Category(["F", "M"])})
    >>> list(schema), schema["age"].hi
    (['age', 'sex'], 90.0)
    """

    def __init__(self, features: Mapping[str, Feature]):
        if not isinstance(features, Mapping) or not features:
            raise SchemaError("Schema({...}): declare at least one column, for example {'age': pel.Number(0, 120)}.")
        for name, feature in features.items():
            if not isinstance(name, str) or not name:
                raise SchemaError(f"Schema: {name!r} is not a column name.")
            if not isinstance(feature, Number | Category):
                raise SchemaError(f"Schema: {name!r} must be a pel.Number or a pel.Category, not {type(feature).__name__}.")
            if not storable(json.dumps({name: feature.to_dict()}, ensure_ascii=False)):
                raise SchemaError(f"Schema: column {name!r} is declared with text that cannot be stored (half a character).")
        self._features: dict[str, Feature] = dict(features)

    def __getitem__(self, name: str) -> Feature:
        try:
            return self._features[name]
        except (KeyError, TypeError):
            raise SchemaError(f"{name!r} is not declared in the schema{did_you_mean(name, self._features)}.") from None

    def __contains__(self, name: object) -> bool:
        return name in self._features

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __repr__(self) -> str:
        return f"Schema({self._features!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def sample(self, size: int, seed: int = 0) -> Columns:
        """Public records drawn from the declared domains; they say nothing about anyone."""
        rng = np.random.default_rng(seed)
        return {name: feature.sample(rng, size) for name, feature in self._features.items()}

    @property
    def declared(self) -> dict[str, Any]:
        """`to_dict` without words for people: what requests and accounts know a schema by."""
        bare = {name: {k: v for k, v in f.to_dict().items() if k not in FOR_PEOPLE} for name, f in self._features.items()}
        return {"features": bare}

    def to_dict(self) -> dict[str, Any]:
        return {"features": {name: feature.to_dict() for name, feature in self._features.items()}}

    @classmethod
    def from_dict(cls, content: Any) -> Schema:
        if not isinstance(content, Mapping) or not isinstance(content.get("features"), Mapping):
            raise SchemaError("a schema file needs a top-level 'features:' with one entry per column.")
        return cls({str(name): _feature_from(str(name), entry) for name, entry in content["features"].items()})

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from YAML or JSON."""
        try:
            content = read_structured(path, "schema")
        except LoadError as error:
            raise SchemaError(str(error)) from None
        return cls.from_dict(content)

    def save(self, path: str | Path) -> None:
        """Write the schema as YAML (.yaml, .yml) or JSON (.json)."""
        path = Path(path)
        content = self.to_dict()
        if path.suffix == ".json":
            text = json.dumps(content, indent=2, ensure_ascii=False)
        elif path.suffix in (".yaml", ".yml"):
            import yaml

            text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
        else:
            raise SchemaError(f"{path.name!r}: a schema is saved as .yaml, .yml or .json.")
        path.write_text(text, encoding="utf-8")


def _feature_from(name: str, entry: Any) -> Feature:
    if isinstance(entry, Mapping) and {"boolean", "bool"} & set(entry):
        raise SchemaError(f"column {name!r}: booleans are a category; write category: [false, true].")
    if not isinstance(entry, Mapping) or ("number" in entry) == ("category" in entry):
        raise SchemaError(f"column {name!r}: give either 'number: [lo, hi]' or 'category: [values]'.")
    kind = "number" if "number" in entry else "category"
    allowed = {
        "number": {"number", "integer", "missing", "source", *FOR_PEOPLE},
        "category": {"category", "ordered", "missing", "unknown", "source", *FOR_PEOPLE},
    }
    extra = sorted(set(entry) - allowed[kind])
    if extra:
        raise SchemaError(f"column {name!r}: {extra[0]!r} is not known for a {kind}{did_you_mean(extra[0], allowed[kind])}.")
    options = {key: entry[key] for key in entry if key != kind}
    try:
        if kind == "category":
            return Category(entry["category"], **options)
        bounds = entry["number"]
        if not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) != 2:
            raise SchemaError("'number' needs two bounds, for example [0, 120].")
        return Number(*bounds, **options)
    except SchemaError as error:
        raise SchemaError(f"column {name!r}: {error}") from None


def read_structured(path: str | Path, what: str) -> Any:
    """Parse a YAML or JSON file written by the user; errors name the file and the line."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LoadError(f"the {what} file {str(path)!r} does not exist.") from None
    except (OSError, UnicodeDecodeError):
        raise LoadError(f"the {what} file {str(path)!r} cannot be read as text.") from None
    import yaml

    try:
        if path.suffix == ".json":
            return json.loads(text)
        content = yaml.safe_load(text)
        _refuse_words_for_booleans(path.name, yaml.compose(text, Loader=yaml.SafeLoader))
        return content
    except json.JSONDecodeError as error:
        raise LoadError(f"{path.name}: line {error.lineno} is not valid JSON.") from None
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        raise LoadError(f"{path.name}: line {'?' if line is None else line + 1} is not valid YAML.") from None
    except RecursionError:
        raise LoadError(f"{path.name}: something in it contains itself, or is nested too deeply.") from None


def _refuse_words_for_booleans(where: str, node: Any, key: str = "") -> None:
    """YAML takes no, yes, on and off for booleans; among categories they are words, and the column would match nothing."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            _refuse_words_for_booleans(where, value, str(name.value))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_words_for_booleans(where, value, key)
    elif key in SAID_BY_CELLS and node.tag == "tag:yaml.org,2002:bool" and node.value.lower() not in ("true", "false"):
        raise LoadError(
            f"{where}: line {node.start_mark.line + 1}: YAML takes {node.value} under '{key}:' for a boolean. If cells say "
            f'"{node.value}", put it in quotes; if the column is of booleans, write [false, true].'
        )


def did_you_mean(name: Any, known: Any) -> str:
    close = difflib.get_close_matches(str(name), [str(k) for k in known], n=1)
    if close:
        return f" (did you mean {close[0]!r}?)"
    listed = [str(k) for k in known]
    return f" (known: {', '.join(listed[:12])}{', …' if len(listed) > 12 else ''})"
