"""`import pellucid` is quick: what only some calls need is imported by those calls."""

import json
import subprocess
import sys

import pytest

import pellucid as pel

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


HEAVY = (*sorted({*LATE} - {"rich", "typer"}), "numpy", "pandas", "pyarrow", "scipy")
"""Packages that the command line does not need to say what it can do."""


def loaded(code):
    """The packages that a new process has loaded after running this, and how many modules of ours."""
    told = "print(json.dumps([sorted({n.partition('.')[0] for n in sys.modules}), sum('pellucid' in n for n in sys.modules)]))"
    program = f"import sys, json\n{code}\n{told}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    packages, ours = json.loads(done.stdout.splitlines()[-1])
    return set(packages), ours


@pytest.fixture(scope="module")
def imported():
    """After the first use of anything, which loads everything."""
    return loaded("import pellucid; pellucid.Session")[0]


@pytest.mark.parametrize("package", LATE)
def test_import_leaves_it_out(package, imported):
    assert package not in imported


def test_the_list_of_what_was_imported_is_real(imported):
    assert {"pellucid", "numpy", "pandas"} <= imported


def test_nothing_is_loaded_before_something_is_used():
    packages, ours = loaded("import pellucid")
    assert not packages & set(HEAVY) and ours <= 5


@pytest.mark.parametrize(
    "arguments", [["--help"], ["ledger", "--help"], ["explain", "--help"], ["--version"], ["proof", "box-sum"]]
)
def test_the_command_line_says_what_it_can_do_without_loading_it(arguments):
    packages, ours = loaded(
        f"from pellucid.cli.commands import main\nsys.argv = ['pellucid', *{arguments}]\ntry: main()\nexcept SystemExit: pass"
    )
    assert not packages & set(HEAVY) and ours <= 20


def test_tab_completion_shows_public_names_and_nothing_else():
    """Before anything was used, and after rooms were loaded."""
    for used in ("", "pellucid.Session\nimport pellucid.cli.commands, pellucid.audit"):
        loaded(
            f"import pellucid\n{used}\n"
            "shown = [name for name in dir(pellucid) if not name.startswith('_')]\n"
            "assert shown == sorted(pellucid.__all__), shown"
        )


def test_whatever_is_used_first_everything_is_there():
    """By name, by `from`, by a room, by a star, in a thread; and what is not there is an AttributeError."""
    for use in (
        "pellucid.Session",
        "from pellucid import load, Ledger",
        "from pellucid import explainers; pellucid.explainers.PartialDependence",
        "from pellucid import *; PartialDependence, Session",
        "import pellucid.release.explanation as e; assert not e._KINDS and all(e._of_kind(kind) for kind in kinds)",
        "import threading; ok = []; go = lambda: ok.append(pellucid.Schema)\n"
        "threads = [threading.Thread(target=go) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]; assert len(ok) == 8",
        "assert not hasattr(pellucid, 'nothing') and not hasattr(pellucid, '__nothing__') and 'Session' in dir(pellucid)",
    ):
        kinds = sorted(kind for kind, made in pel.release.explanation._KINDS.items() if made.__module__.startswith("pellucid."))
        loaded(f"import pellucid; kinds = {kinds}\n{use}\nassert pellucid.Session and pellucid.__all__ and pellucid.public")
