"""Pictures of the page of a report for the documentation: light, dark and as it is printed, by a browser without a window.

    make demo && python docs/site/screenshots.py demo-output/report.html

They are kept in docs/ as small WebP files. Needs Chromium; no request leaves the page.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
LOOKS = {
    "light": ("@media (prefers-color-scheme:dark)", "@media not all"),
    "dark": ("@media (prefers-color-scheme:dark)", "@media all"),
    "print": ("@media print", "@media all"),
}
"""Which rule of the page is made to hold always, or never: a browser without a window cannot be told otherwise."""
WIDE, TALL = 900, 1400
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


def browser() -> str:
    found = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if found is None:
        sys.exit("no Chromium here: install it, and run this again.")
    return found


def shown(page: Path, arguments: list[str]) -> None:
    """Whatever the browser is asked to write about a page."""
    with tempfile.TemporaryDirectory() as profile:
        command = [browser(), *QUIET, f"--user-data-dir={profile}", *arguments, page.resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=300)


def kept(png: bytes, name: str) -> None:
    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.save(DOCS / name, "WEBP", quality=80, method=6)
    print(f"{DOCS.name}/{name}: {image.size[0]} × {image.size[1]}, {(DOCS / name).stat().st_size // 1024} KB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, help="the page of a report, as report.save wrote it")
    page = parser.parse_args().page
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for look, (rule, becomes) in LOOKS.items():
            if rule not in text:
                sys.exit(f"the page has no {rule!r}: it is no page of a report.")
            copy, picture = Path(folder) / f"{look}.html", Path(folder) / f"{look}.png"
            copy.write_text(text.replace(rule, becomes), encoding="utf-8")
            shown(copy, [f"--window-size={WIDE},{TALL}", f"--screenshot={picture}"])
            kept(picture.read_bytes(), f"report-{look}.webp")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
