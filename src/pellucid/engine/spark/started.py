"""Sessions of Spark and their tables for the command line. Whatever is wrong is said in words."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

from ...errors import DataError, MissingExtra, PlanError
from .jobs import quiet

QUIET = {"spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}
"""Of a session that is started here: in local mode executors share the console, where Spark's errors would quote cells."""


def table_of(name: str, master: str | None) -> Any:
    """A table of Spark's catalogue as a DataFrame; `master` is where Spark runs, its own settings by default."""
    spark = started(master)
    found = None
    with quiet():
        try:
            found = spark.table(name)
        except Exception:
            found = None
    if found is None:
        raise DataError(f"Spark has no table {name!r}, or you may not read it; check the name, with its catalogue and schema.")
    return found


def files_of(path: str, master: str) -> Any:
    """A Parquet file or folder as a DataFrame."""
    if not os.path.exists(path):
        raise DataError(f"the data file {path!r} does not exist.")
    spark, found = started(master), None
    with quiet():
        try:
            found = spark.read.parquet(path)
        except Exception:
            found = None
    if found is None:
        raise DataError("Spark cannot read the data file as Parquet; check the path and that it was written completely.")
    return found


def started(master: str | None) -> Any:
    """A session of Spark, the one that is there or a new one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra("tables in Spark need PySpark: pip install 'pellucid[spark]'. Nothing was charged.") from None
    remote = (master or os.environ.get("SPARK_REMOTE", "")).startswith("sc://")
    if not remote and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        raise PlanError(
            "Spark needs Java, 17 or newer, and there is none here: install a Java runtime (on Debian and Ubuntu "
            "`apt-get install openjdk-17-jre-headless`), or set JAVA_HOME. Nothing was charged."
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.appName("pellucid")
    if master is not None:
        builder = builder.remote(master) if remote else builder.master(master)
    spark = None
    with quiet():
        try:
            spark = (builder if remote else builder.config(map=QUIET)).getOrCreate()
        except Exception:
            spark = None
    if spark is None:
        where = "its own settings" if master is None else repr(master)
        raise PlanError(
            f"Spark could not be started with {where}; for this machine give --spark 'local[4]'. Nothing was charged."
        )
    return spark
