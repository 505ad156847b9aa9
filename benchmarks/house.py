"""How large the library is and how much of it a call visits: the counts that say whether it became simpler.

    python benchmarks/house.py

Lines of code are lines that hold a token of the program: docstrings, comments and blank lines are not
counted, a statement over five lines counts five. A function's body is counted in the same way, from the first
statement after its docstring; functions inside it are part of it. Visited are our functions that Python calls
in this process, in any thread, on the second call: imports and compilation are over by then. Lambdas,
comprehensions and class bodies are not counted, and compiled functions are not seen.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGES = ("mmtfl", "mmtfl_lab")
LABORATORY = tuple(f"{package}/{room}/" for package in PACKAGES for room in ("paper", "bench"))
LONG_MODULE = 500
NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


# -- what is written -----------------------------------------------------------------------------------------


def docstring_lines(tree: ast.AST) -> set[int]:
    """Lines of docstrings, and of texts that stand alone below a name."""
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    found = [text for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)]
    return {line for text in found for line in range(text.lineno, (text.end_lineno or text.lineno) + 1)}


def code_lines(text: str) -> set[int]:
    """Lines that hold code."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = (range(t.start[0], t.end[0] + 1) for t in tokens if t.type not in NO_CODE)
    return {line for some in lines for line in some} - docstring_lines(ast.parse(text))


def bodies(text: str) -> Iterator[tuple[int, str]]:
    """Length of each function's body, and its name."""
    lines = code_lines(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            body = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
            yield len(lines.intersection(body)), node.name


def modules(package: str) -> dict[str, str]:
    """Texts of the modules by path."""
    files = sorted((SOURCE / package).rglob("*.py"))
    return {file.relative_to(SOURCE).as_posix(): file.read_text() for file in files}


def print_sizes(package: str, texts: dict[str, str]) -> None:
    """The table of what is written."""
    lengths = [length for text in texts.values() for length, _ in bodies(text)]
    longest = max(
        (length, f"{name} in {path}") for path, text in texts.items() for length, name in bodies(text)
    )
    long_ones = {path: len(text.splitlines()) for path, text in texts.items()}
    long_ones = {path: n for path, n in long_ones.items() if n > LONG_MODULE}
    names = Counter(Path(path).stem for path in texts)
    twice = [f"{name} {n}x" for name, n in names.most_common() if n > 1 and not name.startswith("__")]
    classes = sum(
        isinstance(node, ast.ClassDef) for text in texts.values() for node in ast.walk(ast.parse(text))
    )
    lines = {path: len(code_lines(text)) for path, text in texts.items()}
    lab = [n for path, n in lines.items() if path.startswith(LABORATORY)]
    rows = {
        "lines of code": f"{sum(lines.values()):,}",
        "of them the laboratory": f"{sum(lab):,} in {len(lab)} modules (paper, bench)",
        "lines of text": f"{sum(len(text.splitlines()) for text in texts.values()):,}",
        "modules": f"{len(texts)}, of them {names['__init__']} __init__",
        "classes and functions": f"{classes} and {len(lengths)}",
        "median body": f"{sorted(lengths)[len(lengths) // 2]} lines",
        "longest body": f"{longest[0]} lines: {longest[1]}",
        f"modules above {LONG_MODULE} lines": ", ".join(f"{p} {n}" for p, n in long_ones.items()) or "none",
        "names of several modules": ", ".join(twice) or "none",
    }
    print_table(package, rows)


def print_table(title: str, rows: dict[str, str]) -> None:
    """Two columns."""
    print(f"\n{title}")
    for name, value in rows.items():
        print(f"  {name:27s} {value}")


# -- what is visited -----------------------------------------------------------------------------------------


class Visits:
    """Functions of ours that were called, by module."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take note of a call."""
        code = frame.f_code
        is_function = code.co_flags & CO_NEWLOCALS and not code.co_name.startswith("<")
        if event == "call" and is_function and code.co_filename.startswith(str(SOURCE)):
            self.seen.add((code.co_filename, code.co_qualname))

    def of(self, call: Callable[[], Any]) -> str:
        """How many functions in how many modules a call visits."""
        self.seen.clear()
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return f"{len(self.seen)} functions in {len({path for path, _ in self.seen})} modules"


def calls(folder: Path) -> dict[str, Callable[[], Any]]:
    """The calls that are followed, on a small problem in the manner of D1."""
    import pandas as pd

    import mmtfl
    from mmtfl.cli.main import main
    from mmtfl.datasets import make_d1

    data = make_d1(60, random_state=0)
    tasks, table = mmtfl.Tasks.from_rows(data.X[:, :70], data.y, data.task), folder / "d1.csv"
    rows = tasks.to_rows()
    frame = pd.DataFrame(rows[0], columns=[f"x{j}" for j in range(70)]).assign(task=rows[2], y=rows[1])
    frame.to_csv(table, index=False)
    words = (
        f"cv {table} --task task --target y --folds 3 --alphas 10 --force -o {folder / 'd1.mmtfl'}".split()
    )
    return {
        "MMTFLRegressor.fit": lambda: mmtfl.MMTFLRegressor(2, 1, 0.5).fit(*rows),
        "MMTFLRegressorCV.fit": lambda: mmtfl.MMTFLRegressorCV(alphas=10, cv=3).fit(*rows),
        "mmtfl cv": lambda: main(words),
    }


def print_visits() -> None:
    """The table of what is visited; each call runs once before it is counted."""
    rows = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        for name, call in calls(Path(folder)).items():
            with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
                call()
                rows[name] = Visits().of(call)
    print_table("visited by the second call", rows)


if __name__ == "__main__":
    for package in PACKAGES:
        if found := modules(package):
            print_sizes(package, found)
    sys.path.insert(0, str(SOURCE))
    print_visits()
