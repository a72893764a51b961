"""Tests of Spark run in one process, which starts Spark once."""

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "spark" in item.path.parent.name:
            item.add_marker(pytest.mark.xdist_group("spark"))
