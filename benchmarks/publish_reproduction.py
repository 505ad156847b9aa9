"""Copy the results of `mmtfl reproduce --out DIR` into docs/reproduction.md and its picture.

    python benchmarks/publish_reproduction.py [DIR]

Everything below the line of MARK in the page is replaced; DIR is reproduce-output by default.
"""

import json
import shutil
import sys
from pathlib import Path

from mmtfl.bench.machine import processor

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARK = "<!-- below: results of mmtfl reproduce, copied by benchmarks/publish_reproduction.py -->"
PARTS = ("verdicts.md", "table2.md", "table1.md")


def publish(results: Path, docs: Path = DOCS) -> None:
    """Put the tables and verdicts below the mark, and Figure 1 beside the other pictures."""
    page = docs / "reproduction.md"
    head, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise SystemExit(f"{page} has lost its line {MARK!r}: put it back where the results begin.")
    run = json.loads((results / "results.json").read_text(encoding="utf-8"))
    hours = sum(cell["seconds"] for cell in run["cells"]) / 3600.0
    settings = run["settings"]
    about = (
        f"Seed {settings['seed']}, {settings['repeats']} splits, {len(run['cells'])} cells, "
        f"{60 * hours:.0f} minutes of processor time on {processor()}."
    )
    figure = "![Figure 1: coefficients of D1 and D2, the truth and every method](images/figure1.png)"
    texts = [(results / part).read_text(encoding="utf-8").strip() for part in PARTS]
    page.write_text("\n\n".join([head + mark, about, *texts, "## Figure 1", figure]) + "\n", encoding="utf-8")
    shutil.copyfile(results / "figure1.png", docs / "images" / "figure1.png")


if __name__ == "__main__":
    publish(Path(sys.argv[1] if len(sys.argv) > 1 else "reproduce-output"))
