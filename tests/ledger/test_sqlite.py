"""The SQLite store, in a file and in memory, and what importing it costs whoever does not use it."""

import shutil
import subprocess
import sys

import pytest
from store_conformance import CopiedStoreConformance, DurableStoreConformance, StoreConformance

from pellucid.ledger.sqlite import SqliteStore


class TestSqliteFile(DurableStoreConformance, CopiedStoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda name="one", busy_seconds=5.0: SqliteStore(tmp_path / f"{name}.db", busy_seconds, create=True)

    @pytest.fixture
    def copy_store(self, tmp_path):
        return lambda name, copy: shutil.copyfile(tmp_path / f"{name}.db", tmp_path / f"{copy}.db")


class TestSqliteInMemory(StoreConformance):
    @pytest.fixture
    def make_store(self):
        return lambda name="one", busy_seconds=5.0: SqliteStore(None, busy_seconds)


def test_the_database_library_is_loaded_with_the_first_store():
    code = (
        "import sys, pellucid; assert 'sqlalchemy' not in sys.modules; pellucid.Ledger(None); assert 'sqlalchemy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
