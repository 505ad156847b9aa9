"""`mmtfl bench`: problems by libraries, as tables, JSON and pictures."""

import json
from pathlib import Path
from typing import Annotated

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import SEVERAL, SWITCH, check_counts, use_one_thread
from mmtfl.cli.output import say


def bench(
    *,
    problems: Annotated[list[str] | None, SEVERAL] = None,
    libraries: Annotated[list[str] | None, SEVERAL] = None,
    repeats: int = 5,
    quick: Annotated[bool, SWITCH] = False,
    out: Path | None = None,
    json: Annotated[bool, SWITCH] = False,
    force: Annotated[bool, SWITCH] = False,
) -> int:
    """Time mmtfl beside other libraries, on one thread, to the same accuracy.

    Parameters
    ----------
    problems
        Which of: ragged, wide, tall, shared, path, logistic, sparse, concave, additive, cv, searches,
        predict, memory, growth, cold. All by default.
    libraries
        Which of: mmtfl, mmtfl-alternating, scikit-learn, adelie, celer, skglm, MALSAR, textbook, cvxpy. All
        that are installed by default; mmtfl always takes part.
    repeats
        Rounds of timing; the least time counts.
    quick
        Small problems, in about a minute, to see that everything runs.
    out
        Folder for results.json, results.md and pictures.
    json
        Print JSON in place of tables.
    force
        Write over the results of an earlier run in the folder.
    """
    use_one_thread()
    from mmtfl_lab.bench.libraries import NAMES
    from mmtfl_lab.bench.run import PROBLEMS, run

    _check_known("problem", problems, PROBLEMS)
    _check_known("library", libraries, NAMES)
    check_counts(repeats=repeats)
    if out is not None:
        _check_folder(out, force)
    results = run(problems or PROBLEMS, libraries, repeats=repeats, quick=quick, say=say)
    if out is not None:
        _write(results, out, _command(problems, libraries, repeats, quick))
    _show(results, json)
    return 1 if results.failed else 0


def _check_known(kind: str, given: list[str] | None, known: tuple[str, ...]) -> None:
    unknown = [name for name in given or () if name not in known]
    if unknown:
        raise BadInput(f"There is no {kind} {unknown[0]!r}: use {', '.join(known)}.")


def _check_folder(out: Path, force: bool) -> None:
    """Refuse an output folder that cannot be used, before minutes of work are lost."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out {str(out)!r} is a file: name a folder.")
    if (out / "results.json").exists() and not force:
        raise BadInput(
            f"{str(out)!r} holds results already: use another folder, or --force to write over them."
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out {str(out)!r} cannot be made: {error.strerror}.") from None


def _command(problems: list[str] | None, libraries: list[str] | None, repeats: int, quick: bool) -> str:
    words = ["mmtfl", "bench"]
    words += ["--problems", *problems] if problems else []
    words += ["--libraries", *libraries] if libraries else []
    words += ["--repeats", str(repeats)] + (["--quick"] if quick else [])
    return " ".join(words)


def _write(results, out: Path, command: str) -> None:
    from mmtfl.persistence.files import write_text
    from mmtfl_lab.bench.rendering import draw, to_markdown

    write_text(out / "results.json", _dump(results))
    write_text(out / "results.md", to_markdown(results, command))
    try:
        pictures = draw(results, out)
    except ImportError as error:
        say(f"No pictures: {error}")
        pictures = []
    say("Written: " + ", ".join(str(path) for path in (out / "results.json", out / "results.md", *pictures)))


def _show(results, as_json: bool) -> None:
    from mmtfl_lab.bench.rendering import print_tables

    if as_json:
        print(_dump(results))
        return
    from rich.console import Console

    console = Console()
    # a pipe has no width: tables are then as wide as their text
    print_tables(results, console if console.is_terminal else Console(width=200))


def _dump(results) -> str:
    return json.dumps(results.as_dict(), indent=2, allow_nan=False)
