"""The suite that every engine passes, on Spark; hundreds of jobs, so it is slow."""

import pytest
from engine_conformance import UNITS, EngineConformance
from spark_here import stored

from pellucid.query.functions import sent_whole

# Executors import the package, and no tests.
sent_whole(__name__)


@pytest.mark.slow
class TestOnSpark(EngineConformance):
    def make(self, frame, schema, relation="replace", unit=UNITS[0]):
        from pellucid.engine.spark import SparkEngine

        (self.folder / "table").mkdir(exist_ok=True)
        return SparkEngine(stored(frame, self.folder / "table"), schema, relation, unit, bucket_rows=40)

    def change(self, frame):
        frame.iloc[:30].assign(age=16.0).to_parquet(self.folder / "table" / "0.parquet")
