"""Copy the results of `python -m mmtfl_lab bench --out DIR` into docs/benchmarks.md and its pictures.

    python benchmarks/publish.py [DIR]

Everything below the line of MARK in the page is replaced; DIR is bench-output by default.
"""

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARK = "<!-- below: results.md of python -m mmtfl_lab bench, copied by benchmarks/publish.py -->"


def publish(results: Path, docs: Path = DOCS) -> None:
    """Put results.md below the mark, and the pictures beside the others."""
    page = docs / "benchmarks.md"
    head, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise SystemExit(f"{page} has lost its line {MARK!r}: put it back where the results begin.")
    measured = (results / "results.md").read_text(encoding="utf-8")
    page.write_text(f"{head}{mark}\n\n{measured}", encoding="utf-8")
    for picture in ("times", "growth"):
        shutil.copyfile(results / f"{picture}.png", docs / "images" / f"benchmark-{picture}.png")


if __name__ == "__main__":
    publish(Path(sys.argv[1] if len(sys.argv) > 1 else "bench-output"))
