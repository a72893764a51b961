"""One session of Spark for a test process, and tables in it; what runs without Java is skipped, and says so."""

import os
import shutil
import sys

import pytest

NO_JAVA = "the Spark engine is not tested here: it needs Java (a JRE, 17 or newer) and pyspark"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "512m",
}
_started = []


def need_java():
    """Skip, in words, where there is no Spark."""
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip(NO_JAVA)
    pytest.importorskip("pyspark", reason=NO_JAVA)


def spark_session():
    """The session of this process."""
    need_java()
    if not _started:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession

        _started.append(SparkSession.builder.master("local[2]").config(map=SETTINGS).getOrCreate())
    return _started[0]


def stored(frame, folder, files=3):
    """A table in several files, as a DataFrame of Spark."""
    size = max(-(-len(frame) // files), 1)
    for i in range(files):
        frame.iloc[i * size : (i + 1) * size].to_parquet(folder / f"{i}.parquet")
    return spark_session().read.parquet(str(folder))
