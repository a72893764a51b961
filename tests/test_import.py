"""`import pellucid` is quick: what only some calls need is imported by those calls."""

import json
import subprocess
import sys

import pytest

LATE = (
    "dp_accounting",
    "flint",
    "interpret",
    "joblib",
    "matplotlib",
    "numba",
    "opendp",
    "polars",
    "rich",
    "shap",
    "sklearn",
    "sqlalchemy",
    "statsmodels",
    "sympy",
    "typer",
    "yaml",
)
"""Packages that no `import pellucid` needs. Extend it when another one becomes late."""


@pytest.fixture(scope="module")
def imported():
    code = "import sys, json, pellucid; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("package", LATE)
def test_import_leaves_it_out(package, imported):
    assert package not in imported


def test_the_list_of_what_was_imported_is_real(imported):
    assert {"pellucid", "numpy", "pandas"} <= imported
