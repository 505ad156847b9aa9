"""Copy the results of `python -m mmtfl_lab reproduce --out DIR` into docs/reproduction.md and its picture.

    python benchmarks/publish_reproduction.py [DIR ...]

Everything below the line of MARK in the page is replaced; DIR is reproduce-output by default. Several runs
(of other data sets, say) stand one after the other; Table 1 and Figure 1 are those of the first.
"""

import json
import shutil
import sys
from pathlib import Path

from mmtfl_lab.bench.run import processor

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARK = "<!-- below: results of make reproduce, copied by benchmarks/publish_reproduction.py -->"


def publish(runs: list[Path], docs: Path = DOCS) -> None:
    """Put the tables and verdicts below the mark, and Figure 1 beside the other pictures."""
    page = docs / "reproduction.md"
    head, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise SystemExit(f"{page} has lost its line {MARK!r}: put it back where the results begin.")
    texts = [text for run in runs for text in (about(run), part(run, "verdicts.md"), part(run, "table2.md"))]
    figure = "![Figure 1: coefficients of D1 and D2, the truth and every method](images/figure1.png)"
    texts += [part(runs[0], "table1.md"), "## Figure 1", figure]
    page.write_text("\n\n".join([head + mark, *texts]) + "\n", encoding="utf-8")
    shutil.copyfile(runs[0] / "figure1.png", docs / "images" / "figure1.png")


def about(results: Path) -> str:
    """What was run, and what it took."""
    run = json.loads((results / "results.json").read_text(encoding="utf-8"))
    settings = run["settings"]
    minutes = sum(cell["seconds"] for cell in run["cells"]) / 60.0
    return (
        f"*Seed {settings['seed']}, {settings['repeats']} splits, {len(run['cells'])} cells, "
        f"{minutes:.0f} minutes of processor time on {processor()}.*"
    )


def part(results: Path, name: str) -> str:
    """One of the pages that a run writes."""
    return (results / name).read_text(encoding="utf-8").strip()


if __name__ == "__main__":
    publish([Path(name) for name in sys.argv[1:] or ["reproduce-output"]])
