"""One session of Spark for a test process, and tables in it; what runs without Java is skipped, and says so."""

import os
import shutil
import sys

import pytest
from engine_conformance import Oracle
from sources import Seeded

from pellucid.engine.ids import labels_of_ids
from pellucid.mechanisms.labels import Labels

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


def spark_session():
    """The session of this process."""
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip(NO_JAVA)
    pytest.importorskip("pyspark", reason=NO_JAVA)
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


class Keys(Seeded):
    """Keys of secret orders that are written down."""

    def __init__(self, seed=0):
        super().__init__(seed)
        self.drawn = []

    def bits(self, count):
        self.drawn.append(super().bits(count))
        return self.drawn[-1]


class KeyedOracle(Oracle):
    """Plain loops over single rows that know the keys which an engine drew."""

    def __init__(self, frame, schema, relation, unit, keys):
        import pyarrow as pa

        self.keys, self.person = list(keys), None
        named = [] if unit.column is None else [i for i in frame[unit.column] if i is not None and i == i]
        self.ids = pa.array(list(dict.fromkeys(named)), pa.string())
        super().__init__(frame, schema, relation, unit, [])

    def kept(self, most, labels):
        rows = super().kept(most, labels)
        self.settled = True
        return rows

    def next_labels(self, wanted):
        labels = Labels(self.keys.pop(0))
        by_person = self.person is not None and getattr(self, "settled", False)
        found = labels_of_ids(labels, self.ids)[0] if by_person else labels.of_rows(0, wanted)
        assert len(found) == wanted
        return [tuple(label) for label in found.tolist()]

    def couples(self):
        labels = self.next_labels(len(self.rows))
        order = sorted(range(len(self.rows)), key=lambda i: labels[i])
        return zip(order[::2], order[1::2])

    def blocks(self, count):
        if self.relation == "replace":
            return super().blocks(count)
        labels = self.next_labels(self.units)
        owner = range(len(self.rows)) if self.person is None else self.person
        kept = [i for i in range(len(self.rows)) if self.parts[i] != 0]
        return [[i for i in kept if labels[owner[i]][1] % count == b] for b in range(count)]
