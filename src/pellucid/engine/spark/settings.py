"""What is refused of a cluster: settings that would show rows, and packages of other versions than the driver's."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...errors import PlanError
from .jobs import quiet

if TYPE_CHECKING:
    import pyarrow as pa

SHOWING = {
    "spark.sql.pyspark.worker.logging.enabled": "keeps what models print and log",
    "spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled": "writes variables, and so rows, into errors",
    "spark.sql.pyspark.udf.profiler": "keeps profiles of what ran beside rows",
    "spark.python.profile": "keeps profiles of what ran beside rows",
    "spark.python.profile.memory": "keeps profiles of what ran beside rows",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "writes what ran beside rows into errors",
    "spark.python.worker.faulthandler.enabled": "writes what ran beside rows into errors",
    "spark.sql.execution.pyspark.udf.tracebackDumpIntervalSeconds": "writes what runs beside rows into logs",
    "spark.python.worker.tracebackDumpIntervalSeconds": "writes what runs beside rows into logs",
}
"""Settings of Spark that show what happens beside rows, and how. All are off unless somebody turns them on."""

OFF = ("", "false", "0", "none", "<undefined>")


def refuse_settings(spark: Any) -> None:
    """Refuse a session of Spark in which one of them is on. Nothing was charged."""
    for name, how in SHOWING.items():
        value = spark.conf.get(name, None)
        # One that falls back on another is said as that, which is asked for too.
        if value is not None and str(value).strip().lower() not in OFF and not str(value).startswith("<value of"):
            raise PlanError(
                f"Spark's setting {name} is {value}: it {how}, where others can read it. Turn it off: "
                f"spark.conf.unset({name!r}), or start Spark without it. Nothing was charged."
            )


ALIKE = ("pellucid", "numpy", "pyarrow", "pandas", "scipy", "scikit-learn", "numba", "cloudpickle")
"""Packages that must be of one version on the driver and on all executors: totals are equal to the last bit."""


def versions() -> str:
    """Python and the packages that matter, as one text. Works where Pellucid is not installed."""
    import sys
    from importlib import metadata

    found = [f"python {sys.version_info[0]}.{sys.version_info[1]}"]
    for package in ALIKE:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"{package} none")
    return ", ".join(found)


PROBES = 8
"""Tasks that are asked for their versions at the opening; all later ones say theirs too."""

_alike: weakref.WeakSet[Any] = weakref.WeakSet()
"""Sessions of Spark whose executors were asked."""


def compare_versions(spark: Any) -> None:
    """Refuse executors whose versions are not the driver's, in words that say which. Nothing was charged."""
    if spark in _alike:
        return
    here, names = versions(), ALIKE

    # Sent with its code: where Pellucid is missing, nothing of it can be imported.
    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys
        from importlib import metadata

        import pyarrow

        for _ in batches:
            pass
        found = [f"python {sys.version_info[0]}.{sys.version_info[1]}"]
        for package in names:
            try:
                found.append(f"{package} {metadata.version(package)}")
            except metadata.PackageNotFoundError:
                found.append(f"{package} none")
        yield pyarrow.RecordBatch.from_pydict({"versions": [", ".join(found)]})

    answered: list[Any] | None = None
    with contextlib.suppress(Exception), quiet():
        answered = spark.range(0, PROBES, 1, PROBES).mapInArrow(probe, "versions string").distinct().collect()
    if answered is None:
        raise PlanError(
            "Spark's executors could not run Python with pyarrow: install the same packages there as here, and set "
            "spark.pyspark.python to that Python. Nothing was charged."
        )
    for row in answered:
        refuse_other_versions(row["versions"], here)
    _alike.add(spark)


def refuse_other_versions(there: str, here: str | None = None) -> None:
    """Say in words what differs between an executor and this driver."""
    here = versions() if here is None else here
    differing = [f"{a} there and {b} here" for a, b in zip(there.split(", "), here.split(", ")) if a != b]
    if differing:
        raise PlanError(
            f"Spark's executors have other versions than this driver: {'; '.join(differing)}. Install the same ones, because "
            "totals are to be equal to the last bit. Nothing was charged."
        )
