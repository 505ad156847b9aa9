"""Put the results of `python -m mmtfl_lab bench --out DIR` into docs/benchmarks.md.

    python benchmarks/publish.py [DIR ...]

Everything below the line of MARK in the page is replaced; DIR is bench-output by default. Of several folders
each adds what those before it did not measure.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARK = "<!-- below: results.json of python -m mmtfl_lab bench, copied by benchmarks/publish.py -->"


def publish(folders: list[Path], docs: Path = DOCS) -> None:
    """Put the tables below the mark."""
    page = docs / "benchmarks.md"
    head, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise SystemExit(f"{page} has lost its line {MARK!r}: put it back where the results begin.")
    found = [json.loads((folder / "results.json").read_text(encoding="utf-8")) for folder in folders]
    tables = [list(lines(found)) for lines in (single_fits, costs, growth)]
    text = "\n\n".join("\n".join(table) for table in tables if len(table) > 2)  # more than its head
    page.write_text(f"{head}{mark}\n\n{text}\n", encoding="utf-8")


def parts(found: list[dict], kind: str, key: str) -> list[dict]:
    """The entries of a kind, each from the first run that has it."""
    return list({entry[key]: entry for run in reversed(found) for entry in run[kind]}.values())


def single_fits(found: list[dict]) -> Iterator[str]:
    """A line for each problem: our time, and how many times as long the others take."""
    wanted = {(t["problem"], t["against"]): t["wanted"] for run in found for t in run["targets"]}
    yield "| problem | rows kept | mmtfl, ms | in passes | times as long | wanted |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for case in parts(found, "cases", "key"):
        best: dict[str, float] = {}
        for row in case["rows"]:
            if row["seconds"]:
                best[row["library"]] = min(row["seconds"], best.get(row["library"], row["seconds"]))
        ours = best.pop("mmtfl", None)
        if ours is None:
            continue
        others = ", ".join(f"{name} {seconds / ours:.1f}" for name, seconds in best.items())
        goals = [f"{name}: {wanted[case['key'], name]}" for name in best if (case["key"], name) in wanted]
        passes = ours / case["pass_seconds"]
        yield (
            f"| {case['title']} | {case['kept']} | {1e3 * ours:.1f} | {passes:.0f} | {others} | "
            f"{'; '.join(goals)} |"
        )


def costs(found: list[dict]) -> Iterator[str]:
    """A line for each piece of work that is done in several ways."""
    yield "| work | unit | ways |"
    yield "| --- | --- | --- |"
    for cost in parts(found, "costs", "key"):
        ways = "; ".join(
            f"{way['name']} {way['value']:.3g}" for way in cost["ways"] if way["value"] is not None
        )
        yield f"| {cost['title']} | {cost['unit']} | {ways} |"


def growth(found: list[dict]) -> Iterator[str]:
    """A line for each size that grows."""
    yield "| size | at | values | ms | exponent |"
    yield "| --- | --- | --- | --- | --- |"
    for curve in parts(found, "growth", "size"):
        values = ", ".join(f"{value:g}" for value in curve["values"])
        times = ", ".join(f"{1e3 * seconds:.3g}" for seconds in curve["seconds"])
        yield f"| {curve['size']} | {curve['title']} | {values} | {times} | {curve['exponent']:.2f} |"


if __name__ == "__main__":
    publish([Path(folder) for folder in sys.argv[1:]] or [Path("bench-output")])
