"""A study file: data, schema, models and a list of releases, as YAML or JSON, for the command line.

    name: ward-7
    data: people.parquet           # or a .csv file, or {spark: "catalog.schema.table"}, a table of Spark
    schema: schema.yaml            # or CSVW, Frictionless, Croissant; or the columns themselves under `features:`
    groups: {address: [street, zip]}    # columns that count as one; they may stand in the schema instead
    budget: {epsilon: 2.0}         # add delta: 1e-6 for a zCDP account, and accounting: either for the better of both
    ledger: study.db               # without it ledger.db beside the study
    neighbors: replace             # or add-remove, with expected_rows: 10000
    workers: 4                     # processes that read the table; one by default
    unit: {column: patient_id, max_rows: 3}
    models:
      risk: {load: "models.py:risk", output: [0, 1], trained_on: other data}
    clusterings:
      segments: {load: "models.py:segments", clusters: [0, 1, 2], trained_on: other data}
    releases:
      - {explain: PartialDependence, model: risk, feature: age, share: 0.25}
      - {explain: Distribution, feature: age, epsilon: 0.1}
      - {explain: ClusterHistograms, groups: segments, epsilon: 0.2}
      - {explain: PermutationImportance, model: risk, target: outcome, ranking: true, epsilon: 0.2}
      - {explain: PrivatePlot, function: "models.py:curve", x: age, output: [0, 1], uses: [risk], epsilon: 0.2}

A function says what it uses that was made from data: models and clusterings of the study by name, anything else as
`{name: age groups, trained_on: other data}`, or `uses: nothing`.

There is always a ledger. One that is named is started with `pellucid explain --create`; `ledger.db` is started by the first
`pellucid explain`, unless the results of an earlier one are there. Without `name:` the account is called like the data file.

Paths are relative to the study file. `load` is `file.py:name`, `package.module:name`, or a .joblib or .pkl file.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import itertools
import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from types import ModuleType
from typing import Any

from .. import explainers
from ..errors import LedgerUnavailable, LoadError, PlanError
from ..explainers import Explainer
from ..ledger import Ledger, checked_text
from ..ledger.accounting import Budget
from ..public.black_box import PrivateTraining
from ..public.clustering import Clustering
from ..public.model import Model
from ..public.schema import Category, Number, Schema, Unit, did_you_mean, read_structured
from ..public.where import Where
from ..query.functions import Derived, sent_whole
from ..release.released import slug
from ..release.session import Session

KNOWN = {
    "name",
    "data",
    "schema",
    "features",
    "groups",
    "budget",
    "ledger",
    "neighbors",
    "unit",
    "expected_rows",
    "where",
    "workers",
    "models",
    "clusterings",
    "releases",
    "output",
}
COSTS = ("epsilon", "rho", "share")
KIND = "kind"
LEDGER = "ledger.db"
"""The ledger of a study that names none, in the folder of the study: studies of the same data share its account."""


@dataclass(frozen=True)
class Release:
    """One line of a study: what to release, for how much, under which title."""

    title: str
    explainer: Explainer
    cost: dict[str, Any]
    slug: str
    """What its files are called; no other release of the study has the same."""


@dataclass(frozen=True)
class SparkTable:
    """A table of Spark's catalogue."""

    name: str

    @property
    def stem(self) -> str:
        """What its account is called where the study says nothing."""
        return self.name


def data_of(where: str, given: Any, folder: Path) -> Path | SparkTable:
    """What a study says of its data: a path, or a table of Spark."""
    if not isinstance(given, Mapping):
        return folder / str(given)
    name = _mapping(f"{where}: data", given, {"spark"}).get("spark")
    if not (isinstance(name, str) and name.strip()):
        raise PlanError(f'{where}: data: give a file, or a table of Spark as data: {{spark: "catalog.schema.table"}}.')
    return SparkTable(name)


def opened_data(data: Path | SparkTable, spark: str | None) -> Any:
    """The data of a study as a session takes it; with `spark`, files are read by Spark too."""
    if isinstance(data, Path) and spark is None:
        return data
    from ..engine.spark import started

    return started.files_of(str(data), spark) if isinstance(data, Path) and spark else started.table_of(data.name, spark)


@dataclass(frozen=True)
class Declared:
    """A study as it was written down: nothing of its data was looked at, not even whether it is there."""

    file: str
    folder: Path
    schema: Schema
    budget: Budget
    neighbors: Any
    unit: Unit
    expected_rows: Any
    workers: Any
    releases: tuple[Release, ...]
    data: Path | SparkTable
    name: str | None
    ledger: str | None
    output: Path
    models: Mapping[str, Model]
    where: Mapping[str, Any]
    """A condition for the part of the table that the study is about; empty for the whole table."""

    @classmethod
    def load(cls, path: str | Path, *, report: bool = False) -> Declared:
        """Read and check a study, and load its models. A report needs no list of releases."""
        path = Path(path)
        content = read_structured(path, "study")
        if not isinstance(content, Mapping):
            raise LoadError(f"{path.name}: a study is a mapping with data:, schema:, budget: and releases:.")
        _only(path.name, content, KNOWN)
        for key in ("data", "budget"):
            if key not in content:
                raise PlanError(f"{path.name}: '{key}:' is missing.")
        folder = path.resolve().parent
        schema = _schema(path.name, content, folder)
        models = {str(name): _model(str(name), entry, folder) for name, entry in _section(path.name, content, "models").items()}
        if "releases" not in content and not report:
            raise PlanError(f"{path.name}: 'releases:' is missing.")
        if "releases" in content and (not isinstance(content["releases"], list) or not content["releases"]):
            raise PlanError(f"{path.name}: 'releases:' needs a list with at least one entry.")
        groups = {
            str(name): _clustering(str(name), entry, folder)
            for name, entry in _section(path.name, content, "clusterings").items()
        }
        boxes: dict[str, tuple[str, Mapping[str, Any]]] = {"model": ("models", models), "groups": ("clusterings", groups)}
        releases = _releases(content["releases"], boxes, folder) if "releases" in content else ()
        return cls(
            path.name,
            folder,
            schema,
            Budget(**_mapping(f"{path.name}: budget", content["budget"], {"epsilon", "delta", "accounting"})),
            content.get("neighbors", "replace"),
            _unit(path.name, content),
            content.get("expected_rows"),
            content.get("workers"),
            releases,
            data_of(path.name, content["data"], folder),
            _text(path.name, content, "name"),
            _text(path.name, content, "ledger"),
            folder / str(content.get("output", "results")),
            models,
            _section(path.name, content, "where"),
        )

    @property
    def audits(self) -> Path:
        """Where the results of audits of its releases are kept: beside the study."""
        return self.folder / f"{Path(self.file).stem}.audit.json"


@dataclass(frozen=True)
class Study:
    """A study that was read and checked, with its session open."""

    session: Session
    releases: tuple[Release, ...]
    folder: Path
    output: Path
    new: bool
    """Whether its ledger is not there yet; one in memory stands for it."""
    started: Callable[[], Session]
    """Starts the ledger, and opens the session with it."""
    audits: Path
    """Where the results of audits of its releases are kept."""
    models: Mapping[str, Model]
    """Its models by name."""

    def model(self, name: str | None) -> Model:
        """One of its models; the name is needed where there are several."""
        if name is None and len(self.models) == 1:
            return next(iter(self.models.values()))
        if name is None or name not in self.models:
            known = ", ".join(self.models) or "none: list one under models:"
            raise PlanError(f"which model? Give --model, one of those of the study ({known}).")
        return self.models[name]

    @property
    def requests(self) -> list[tuple[Explainer, dict[str, Any]]]:
        """Its releases as a session takes them."""
        return [(release.explainer, release.cost) for release in self.releases]

    def settled(self) -> Study:
        """The study with the kind of release that errs least over all of it, where the account counts either way."""
        outlook, releases = self.session.outlook(self.requests), []
        for release, charge in zip(self.releases, outlook.charges):
            # What was released before is free in the kind that it had.
            settled = {KIND: outlook.kind} if outlook.kind and charge.amount and "rho" not in release.cost else {}
            releases.append(replace(release, cost={**settled, **release.cost}))
        return replace(self, releases=tuple(releases))

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        create: bool = False,
        changed: str = "",
        preview: bool = False,
        workers: int | None = None,
        report: bool = False,
        spark: str | None = None,
        where: Sequence[str] = (),
    ) -> Study:
        """Read, check and open a study. Nothing is charged, and no row is read but for the ids that say who is one person.

        `create` allows to start the ledger, which `started` does, or the account if it is missing; a preview needs no leave.
        `changed` says why the table is another one than before; `workers` is how many processes read it, instead of what the
        study says; `spark` is where Spark reads it; `where` are conditions beside those of the study, such as "region=north".
        """
        declared = Declared.load(path, report=report)
        reading: dict[str, Any] = {} if preview else {"workers": declared.workers if workers is None else workers}
        ledger = declared.folder / (declared.ledger or LEDGER)
        there = ledger.exists()
        if not (there or create or preview):
            _check_start(declared.file, ledger, bool(declared.ledger), declared.output)
        opened = functools.partial(
            Session,
            opened_data(declared.data, spark),
            declared.schema,
            budget=declared.budget,
            neighbors=declared.neighbors,
            name=declared.name or (None if declared.ledger else declared.data.stem),
            unit=declared.unit,
            expected_rows=declared.expected_rows,
            create=create or not there,
            changed=changed,
        )
        part = {**declared.where, **dict(_said(text, declared.schema) for text in where)}

        def start(**given: Any) -> Session:
            session = opened(**{"ledger": ledger, **reading, **given})
            return session.where(part) if part else session

        session = start() if there else start(ledger=Ledger(None), **({"workers": None} if reading else {}))
        # What is about one part does not overwrite what is about another.
        output = declared.output / slug(Where.of(declared.schema, part).text) if part else declared.output
        return cls(session, declared.releases, declared.folder, output, not there, start, declared.audits, declared.models)


def _said(text: str, schema: Schema) -> tuple[str, Any]:
    """A condition as the command line says it: region=north,east for values, age=18:40 for a range."""
    name, found, value = text.partition("=")
    if not found or not name or not value:
        raise PlanError(f"--where {text!r}: write column=value, column=value,value or column=from:to.")
    if name not in schema:
        raise PlanError(f"--where: {name!r} is not declared in the schema{did_you_mean(name, schema)}.")
    feature = schema[name]
    if isinstance(feature, Category):
        known = {str(one): one for one in feature.values}
        return name, [known.get(one, one) for one in value.split(",")]
    numbers = type(feature) is Number
    ends = value.split(":") if numbers else value.split("..")
    if len(ends) > 2:
        raise PlanError(f"--where {text!r}: a range is from:to, of dates from..to; leave an end out if it is open.")
    try:
        said = [None if not end else float(end) if numbers else end for end in ends]
    except ValueError:
        raise PlanError(f"--where {text!r}: {name!r} is a number; write {name}=18:40.") from None
    return name, said[0] if len(said) == 1 else tuple(said)


def _check_start(study: str, ledger: Path, named: bool, output: Path) -> None:
    """Refuse to start a ledger that may have been lost: one that the study names, or one whose releases are there still."""
    released = _released(output)
    if not (named or released):
        return
    found = f"{output.name}/ holds what it paid for (results: {released})" if released else f"{study} names it"
    raise LedgerUnavailable(
        f"there is no ledger {ledger.name!r} beside the study, and {found}. If it was there, put it back: a new one knows "
        f"nothing of what was spent. To start one with a full budget, add --create: pellucid explain {study} --create, or "
        f"pellucid report {study} --create. Nothing was charged."
    )


def _released(folder: Path) -> int:
    """How many releases were saved in a folder."""
    found = 0
    for file in folder.glob("*.json") if folder.is_dir() else ():
        try:
            found += bool(json.loads(file.read_text(encoding="utf-8"))["certificate"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def _only(where: str, content: Mapping[str, Any], known: set[str]) -> None:
    for key in content:
        if key not in known:
            raise PlanError(f"{where}: {key!r} is not known{did_you_mean(key, known)}.")


def _mapping(where: str, content: Any, known: set[str]) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        raise PlanError(f"{where}: give a mapping with {', '.join(sorted(known))}.")
    _only(where, content, known)
    return dict(content)


def _section(where: str, content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = {} if content.get(key) is None else content[key]
    if not isinstance(found, Mapping):
        raise PlanError(f"{where}: '{key}:' needs a name for each of them, with its settings below it.")
    return found


def _text(where: str, content: Mapping[str, Any], key: str) -> str | None:
    given = content.get(key)
    if isinstance(given, bool):
        raise PlanError(
            f"{where}: YAML takes the value of '{key}:' for a boolean, as it does no, yes, on and off: put it in quotes."
        )
    if given is not None and not (isinstance(given, str) and given.strip()):
        raise PlanError(f"{where}: {key}: {given!r} is not text; put it in quotes, or leave it out.")
    return given


def _schema(where: str, content: Mapping[str, Any], folder: Path) -> Schema:
    if ("schema" in content) == ("features" in content):
        raise PlanError(f"{where}: give either 'schema:' (a file) or 'features:' (the columns themselves).")
    if "schema" not in content:
        return Schema.from_dict(content)
    return Schema.read(folder / str(content["schema"]), groups=content.get("groups"))


def _unit(where: str, content: Mapping[str, Any]) -> Unit:
    given = content.get("unit")
    return Unit() if given is None else Unit(**_mapping(f"{where}: unit", given, {"column", "max_rows"}))


def _model(name: str, entry: Any, folder: Path) -> Model:
    what = f"model {name!r}"
    options = _mapping(what, entry, {"load", "output", "features", "trained_on", "positive", "input", "method"})
    loaded = _black_box(what, name, options, folder)
    return loaded if isinstance(loaded, Model) else Model(loaded, name=name, **options)


def _clustering(name: str, entry: Any, folder: Path) -> Clustering:
    what = f"clustering {name!r}"
    options = _mapping(what, entry, {"load", "clusters", "features", "trained_on", "input"})
    loaded = _black_box(what, name, options, folder)
    return loaded if isinstance(loaded, Clustering) else Clustering(loaded, name=name, **options)


def _black_box(what: str, name: str, options: dict[str, Any], folder: Path) -> Any:
    """Load what `load:` names, and leave the other options ready for it."""
    if "load" not in options:
        raise PlanError(f"{what}: 'load:' is missing; for example load: \"models.py:{name}\".")
    if "trained_on" in options:
        options["trained_on"] = _trained_on(what, options["trained_on"])
    return _load(what, str(options.pop("load")), folder)


def _trained_on(what: str, given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    return PrivateTraining(**_mapping(f"{what}: trained_on", given, {"epsilon", "delta"}))


def _uses(where: str, given: Any, boxes: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Any:
    """What a function uses, as its explainer takes it."""
    made = {name: box for _, section in boxes.values() for name, box in section.items()}
    used: list[Any] = []
    for entry in [] if given == "nothing" else given if isinstance(given, list) else [given]:
        if isinstance(entry, Mapping):
            options = _mapping(f"{where}: uses", entry, {"name", "trained_on"})
            used.append(Derived(options.get("name", ""), _trained_on(f"{where}: uses", options.get("trained_on"))))
        elif str(entry) in made:
            used.append(made[str(entry)])
        else:
            raise PlanError(
                f"{where}: uses: {entry!r} is no model or clustering of the study{did_you_mean(str(entry), made)}; anything else "
                "is given as {name: …, trained_on: …}, and nothing at all as uses: nothing."
            )
    return used


def _load(what: str, place: str, folder: Path) -> Any:
    """Import a model or clustering. Its code is the owner's and runs with the owner's rights."""
    pickled = place.endswith((".joblib", ".pkl", ".pickle"))
    file, _, attribute = (place, "", "") if pickled else place.rpartition(":")
    if not file:
        raise PlanError(f"{what}: load: {place!r} needs the form file.py:name or package.module:name.")
    if (pickled or file.endswith(".py")) and not (folder / file).is_file():
        raise LoadError(f"{what}: {place!r} could not be loaded: there is no file {file!r} beside the study; check the path.")
    try:
        module = _unpickled(folder / file) if pickled else _module(file, folder)
    except LoadError as error:
        raise LoadError(f"{what}: {place!r} could not be loaded: {error}") from None
    except PlanError:
        raise
    except Exception as error:
        raise LoadError(f"{what}: {place!r} could not be loaded: {_cause(error, '' if pickled else file)}") from None
    if pickled:
        return module
    if not hasattr(module, attribute):
        known = [name for name in vars(module) if not name.startswith("_")]
        raise LoadError(f"{what}: {place!r} could not be loaded: {file} has no {attribute!r}{did_you_mean(attribute, known)}.")
    return getattr(module, attribute)


def _unpickled(file: Path) -> Any:
    import joblib

    try:
        return joblib.load(file)
    except (KeyError, IndexError, UnpicklingError, EOFError):
        raise LoadError("it is not a file that joblib or pickle wrote, or it is not whole; save the model again.") from None


def _module(file: str, folder: Path) -> ModuleType:
    if not file.endswith(".py"):
        return importlib.import_module(file)
    spec = importlib.util.spec_from_file_location(f"pellucid_study_{Path(file).stem}", folder / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sent_whole(spec.name)
    spec.loader.exec_module(module)
    return module


def _cause(error: Exception, file: str) -> str:
    """What went wrong, and where in the user's code, if `file` is any. No table was opened yet, so it may be quoted."""
    said = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":").removesuffix(".")
    missing = f"{error.name}." if isinstance(error, ModuleNotFoundError) else None
    if missing and not file.endswith(".py") and f"{file}.".startswith(missing):
        return f"{said}; check the name of the module, and that it can be imported from here."
    if isinstance(error, SyntaxError) or not file:
        return f"{said}."
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    theirs = [(name, line) for name, line in frames if name not in (__file__, importlib.__file__) and "<frozen" not in name]
    lines = [line for name, line in theirs if name == theirs[0][0]]
    return f"{said} ({Path(theirs[0][0]).name}, line {lines[-1]})." if lines else f"{said}."


def _releases(listed: list[Any], boxes: Mapping[str, tuple[str, Mapping[str, Any]]], folder: Path) -> tuple[Release, ...]:
    """The releases of a study, each with a name for its files that no other has."""
    made: list[Release] = []
    for number, entry in enumerate(listed, 1):
        title, explainer, cost = _release(number, entry, boxes, folder)
        name, taken = slug(title) or f"release-{number}", {release.slug for release in made}
        others = (f"{name}-{i}" for i in itertools.count(2))
        made.append(Release(title, explainer, cost, name if name not in taken else next(o for o in others if o not in taken)))
    return tuple(made)


def _release(
    number: int, entry: Any, boxes: Mapping[str, tuple[str, Mapping[str, Any]]], folder: Path
) -> tuple[str, Explainer, dict[str, Any]]:
    where = f"release {number}"
    if not isinstance(entry, Mapping) or "explain" not in entry:
        raise PlanError(f"{where}: give 'explain:' with the name of an explainer.")
    kinds = {name: getattr(explainers, name) for name in explainers.__all__ if name != "Explainer"}
    kind = str(entry["explain"])
    if kind not in kinds:
        raise PlanError(f"{where}: {kind!r} is not an explainer{did_you_mean(kind, kinds)}.")
    parameters = inspect.signature(kinds[kind]).parameters
    known = set(parameters)
    options = {key: value for key, value in entry.items() if key not in ("explain", "title", KIND, *COSTS)}
    _only(where, options, known)
    for option, (section, made) in boxes.items():
        # What need not be given is no clustering: groups of features.
        if option not in known or parameters[option].default is not inspect.Parameter.empty:
            continue
        if option not in options:
            raise PlanError(f"{where}: {kind} needs '{option}:', one of those under {section}:{did_you_mean('', made)}.")
        chosen = str(options[option])
        if chosen not in made:
            if not made:
                raise PlanError(
                    f"{where}: {kind} needs {chosen!r}, and the study declares none: add '{section}:' with {chosen}: below it."
                )
            raise PlanError(f"{where}: {section}: has no {chosen!r}{did_you_mean(chosen, made)}.")
        options[option] = made[chosen]
    if "function" in options:
        options["function"] = _load(f"{where}: function", str(options["function"]), folder)
    if "uses" in options:
        options["uses"] = _uses(where, options["uses"], boxes)
    cost = {key: entry[key] for key in COSTS if key in entry}
    if len(cost) != 1:
        raise PlanError(f"{where}: say what it may cost with exactly one of epsilon:, rho: or share:.")
    if KIND in entry:
        cost[KIND] = entry[KIND]
    try:
        explainer = kinds[kind](**options)
    except TypeError:
        raise PlanError(f"{where}: {kind} needs {', '.join(sorted(known - set(options)))}.") from None
    about = next((entry[key] for key in ("feature", "formula", "groups", "target", "function") if _told(entry, key)), "")
    named = about if isinstance(about, str) else ", ".join(str(f) for f in about or ())
    title = str(entry.get("title", f"{number:02d} {kind} {named}".rstrip()))
    return checked_text(f"{where}: title", title), explainer, cost


def _told(entry: Mapping[str, Any], key: str) -> bool:
    """Whether an option says what a release is about; groups of features do not."""
    return bool(entry.get(key)) and not isinstance(entry[key], Mapping)
