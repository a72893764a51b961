"""What `import pellucid` costs, beside `import pandas`: processor time of new processes, in turn, the least of several.

python benchmarks/import_time.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys

IMPORTS = {
    "nothing": "pass",
    "pandas": "import pandas",
    "pellucid": "import pellucid",
    "pellucid, and a first name of it": "import pellucid; pellucid.Session",
}


def seconds(code: str) -> float:
    """Processor time of a new process, its own start included."""
    program = f"{code}\nimport time; print(time.process_time())"
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    # In turn, so that a busy minute is everybody's.
    runs = [{name: seconds(code) for name, code in IMPORTS.items()} for _ in range(repeats)]
    least = {name: min(run[name] for run in runs) for name in IMPORTS}
    pandas = least["pandas"] - least["nothing"]
    print("| import | seconds of processor time | beside pandas |\n|---|---|---|")
    for name in list(IMPORTS)[1:]:
        own = least[name] - least["nothing"]
        print(f"| {name} | {own:.3f} | {own / pandas:.2f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
