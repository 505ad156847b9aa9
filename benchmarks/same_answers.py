"""Whether the library still gives the answers it gave: record them before a change, check them after it.

    python benchmarks/same_answers.py record FILE.npz [--only WORD]
    python benchmarks/same_answers.py check FILE.npz [--only WORD] [--nudge SEED]

`record` makes a few hundred public calls on small data (`same_answers_cases.py`, `same_answers_tools.py`),
writes what came out to FILE.npz, and a saved model of each class to the folder FILE.models. `check` makes the
same calls, loads those models, and prints one line for each difference: arrays must agree to 1e-10 of their
largest entry, choices and public names exactly. What is new is told, and is no difference. The exit code is 1
if there are any.

`--nudge` changes the data in their last bit first: what moves then by more than its tolerance would not
survive another order of a sum either.
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
from __future__ import annotations

import os

for _library in ("OMP", "OPENBLAS", "MKL"):  # one thread, one order of sums
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import argparse
import inspect
import json
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import same_answers_cases as cases
import same_answers_tools as tools

import mmtfl
from mmtfl import datasets, model_selection, plots

SLOW = 3.0  # seconds: calls that take longer are told on stderr, for the whole is to stay at some minutes
FLOOR = 1e-12  # differences below this are none, however small the array
PATHS_TOLERANCE = 1e-3  # of held-out scores and paths; --nudge moves them by up to 3e-4 of the largest
# lists of names: one that is missing is a difference, one more is new
LISTS = ("attributes", "names", "signature")


class Difference(NamedTuple):
    """One line of the answer."""

    case: str
    name: str
    how: str
    is_new: bool = False


# -- public names --------------------------------------------------------------------------------------------


def public_names(module: ModuleType) -> dict[str, Any]:
    """Our classes and functions in a module, and the modules that are part of what is public."""
    found = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    rooms = (datasets, model_selection, plots)
    return {
        name: value
        for name, value in found.items()
        if any(value is room for room in rooms) or str(getattr(value, "__module__", "")).startswith("mmtfl")
    }


def signature(function: Any) -> list[str]:
    """Parameters with their places and defaults; annotations are not compared."""
    found = []
    for place, parameter in enumerate(inspect.signature(function).parameters.values()):
        plain = parameter.replace(annotation=inspect.Parameter.empty)
        keyword_only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        found.append(f"{plain} (by name)" if keyword_only else f"{place}: {plain}")
    return found


def name_cases() -> cases.Cases:
    """What can be imported, and how it is called."""
    for module in (mmtfl, datasets, model_selection, plots):
        values = public_names(module)
        yield f"names/{module.__name__}", cases.Case(lambda _, names=list(values): {"names": names})
        for name, value in values.items():
            if inspect.isclass(value) and not issubclass(value, Warning):
                methods = {m: f for m, f in inspect.getmembers(value, callable) if is_called(m)}
                out: cases.Outcome = {f"{m}.signature": signature(f) for m, f in methods.items()}
                yield f"signatures/{name}", cases.Case(lambda _, out=out: out)
            elif callable(value) and not inspect.isclass(value):
                out = {"signature": signature(value)}
                yield f"signatures/{name}", cases.Case(lambda _, out=out: out)


def is_called(method: str) -> bool:
    """Whether a method is for users; requests of metadata routing are scikit-learn's own."""
    return method == "__init__" or not (method.startswith("_") or method.endswith(("_request", "_routing")))


# -- running -------------------------------------------------------------------------------------------------


def every_case(models: Path) -> dict[str, cases.Case]:
    """All calls by name."""
    groups = [
        cases.fits(),
        cases.options(),
        cases.doors(),
        cases.paths(),
        tools.searches(),
        tools.elsewhere(),
    ]
    groups += [cases.containers(), cases.made(), tools.scores(), tools.files(models), tools.commands(models)]
    return dict(chain(name_cases(), *groups))


def run(case: cases.Case) -> cases.Outcome:
    """What comes out of a case; an error is an outcome too."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scores and predictions are compared, not what is said beside them
        try:
            return {name: plain(value) for name, value in case.run(Path(folder)).items()}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"[:200]}


def plain(value: Any) -> Any:
    """Arrays as float64, int64 or text; everything else as JSON has it."""
    if isinstance(value, np.ndarray) and value.ndim:
        kind = value.dtype.kind
        return value.astype(np.float64 if kind == "f" else np.int64 if kind in "iub" else np.str_)
    if isinstance(value, np.generic | np.ndarray):
        return value.item()
    return json.loads(json.dumps(value, default=str))


# -- comparing -----------------------------------------------------------------------------------------------


def compare(case: str, before: cases.Outcome, after: cases.Outcome, tolerance: float) -> Iterator[Difference]:
    """Differences between two outcomes of a case."""
    for name in before.keys() | after.keys():
        if name not in after:
            yield Difference(case, name, after.get("error", "is missing"))
        elif name not in before:
            yield Difference(case, name, f"{after[name]}" if name == "error" else "is new", name != "error")
        elif name.endswith(LISTS):
            yield from compare_lists(case, name, before[name], after[name])
        elif how := distance(before[name], after[name], max(tolerance, known_to(name))):
            yield Difference(case, name, how)


def known_to(name: str) -> float:
    """How closely a value is known whatever tol is: searches solve their paths to about 1e-4."""
    of_paths = name.endswith(("_test_score", "best_score_")) or "path_." in name or "heldout_scores_" in name
    return PATHS_TOLERANCE if of_paths else 0.0


def compare_lists(case: str, name: str, before: list[str], after: list[str]) -> Iterator[Difference]:
    """What is missing, and what is new."""
    yield from (Difference(case, name, f"lacks {word!r}") for word in before if word not in after)
    yield from (Difference(case, name, f"has {word!r}", is_new=True) for word in after if word not in before)


def distance(before: Any, after: Any, tolerance: float) -> str:
    """How far two values are from each other, in words; nothing if they agree."""
    if isinstance(before, float) and isinstance(after, float):
        before, after = np.array([before]), np.array([after])
    if not (isinstance(before, np.ndarray) and isinstance(after, np.ndarray)):
        return "" if before == after else f"was {before!r}, is {after!r}"[:200]
    if before.shape != after.shape:
        return f"had the shape {before.shape}, has {after.shape}"
    if before.dtype.kind != "f" or after.dtype.kind != "f":
        n_others = int(np.count_nonzero(before != after))
        return f"{n_others} of {before.size} entries differ" if n_others else ""
    finite = np.isfinite(before)
    if not np.array_equal(before[~finite], after[~finite], equal_nan=True):
        return "is infinite or nan at other places"
    far = float(np.max(np.abs(before[finite] - after[finite]), initial=0.0))
    largest = float(np.max(np.abs(before[finite]), initial=0.0))
    if far <= max(FLOOR, tolerance * largest):
        return ""
    return f"differs by {far:.1e} (largest entry {largest:.1e}, tolerance {tolerance:.0e})"


# -- the file ------------------------------------------------------------------------------------------------


def write(path: Path, outcomes: dict[str, cases.Outcome]) -> None:
    """Arrays under case|name, and all other values as one JSON text."""
    arrays = {
        f"{c}|{n}": v for c, out in outcomes.items() for n, v in out.items() if isinstance(v, np.ndarray)
    }
    others = {c: {n: v for n, v in out.items() if f"{c}|{n}" not in arrays} for c, out in outcomes.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, json=np.array(json.dumps(others)), **arrays)


def read(path: Path) -> dict[str, cases.Outcome]:
    """What `write` has written."""
    with np.load(path, allow_pickle=False) as file:
        outcomes: dict[str, cases.Outcome] = json.loads(str(file["json"]))
        for key in file.files:
            case, bar, name = key.partition("|")
            if bar:
                outcomes[case][name] = file[key]
    return outcomes


def outcomes(path: Path, only: str) -> Iterator[tuple[str, float, cases.Outcome]]:
    """Run the cases whose names hold a word, one by one."""
    models = path.with_suffix(".models")
    for name, case in every_case(models).items():
        if only in name:
            start = time.process_time()
            yield name, case.tolerance, run(case)
            if (seconds := time.process_time() - start) > SLOW:
                print(f"{name} took {seconds:.1f} s", file=sys.stderr, flush=True)


def record(path: Path, only: str) -> int:
    """Run and write; calls that end in an error are told, and fail the record.

    With a word, the other cases of a file that is there are kept, and so are all of its models.
    """
    models = path.with_suffix(".models")
    if not only:
        shutil.rmtree(models, ignore_errors=True)
    models.mkdir(parents=True, exist_ok=True)
    found = {name: outcome for name, _, outcome in outcomes(path, only)}
    write(path, (read(path) if only and path.exists() else {}) | found)
    errors = {name: outcome["error"] for name, outcome in found.items() if "error" in outcome}
    for name, error in errors.items():
        print(f"{name}: {error}")
    print(f"{len(found)} cases recorded in {path}, {len(errors)} of them errors")
    return 1 if errors else 0


def check(path: Path, only: str) -> int:
    """Run, compare and tell."""
    before, n_cases, n_others = read(path), 0, 0
    names = set()
    for name, tolerance, outcome in outcomes(path, only):
        names.add(name)
        if name not in before:
            print(f"new: {name}")
            continue
        n_cases += 1
        for found in sorted(compare(name, before[name], outcome, tolerance)):
            n_others += not found.is_new
            print(f"{'new: ' * found.is_new}{found.case} | {found.name} | {found.how}", flush=True)
    for name in before:
        if only in name and name not in names:
            n_others += 1
            print(f"{name} | the case is gone")
    print(f"{n_cases} cases checked, {n_others} differences")
    return 1 if n_others or not n_cases else 0


def main() -> int:
    """Read the command and do it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=("record", "check"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", metavar="WORD", help="cases whose names hold this word")
    parser.add_argument(
        "--nudge", default=0, type=int, metavar="SEED", help="change the data in their last bit"
    )
    given = parser.parse_args()
    cases.nudge_data(given.nudge)
    start = time.process_time()
    code = (record if given.verb == "record" else check)(given.file, given.only)
    print(f"{time.process_time() - start:.0f} s of one processor")
    return code


if __name__ == "__main__":
    sys.exit(main())
