"""The command `mmtfl`: one module per subcommand, imported when it is called."""

import atexit
import gc
import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from io import TextIOWrapper
from types import ModuleType
from typing import Any

import mmtfl
from mmtfl.errors import require
from mmtfl.tables.reading import TableError

_TABLE = "DATA --task COLUMN --target COLUMN"
# name: what it does, and its usage; the function of that name, with _ for -, lives in the module of that name
COMMANDS = {
    "fit": ("Fit one model to a table.", f"{_TABLE} -o MODEL"),
    "cv": ("Fit a model to a table, tuned by cross-validation.", f"{_TABLE} -o MODEL"),
    "predict": ("Add the predictions of a model to a table.", "MODEL DATA [-o TABLE]"),
    "add-task": ("Add a task to a model, from a few rows.", "MODEL DATA -o MODEL"),
    "calibrate": ("Give a model intervals, from rows that it was not fitted to.", "MODEL DATA -o MODEL"),
    "inspect": ("Show what a model has learned: which tasks use which features.", "MODEL"),
    "report": ("Write a model, and how well it predicts, as one HTML page.", "MODEL [DATA] -o PAGE"),
    "agree": ("Propose what sites that keep their rows agree on.", f"{_TABLE} -o AGREED"),
    "summarise": ("Sum up the rows of a site, which stay there.", "DATA --columns AGREED -o SUMMARY"),
    "finish": ("Finish a model of several sites at one of them, with its own rows.", "MODEL DATA -o MODEL"),
    "datasets": ("List datasets, or write one as a table.", "[NAME] [-o TABLE]"),
    "compare": ("Compare methods on a table: which predicts best.", _TABLE),
}

FAILED, BAD_INPUT, NOT_CONVERGED = 1, 2, 3
INTERRUPTED = 130  # as shells report a program that Ctrl-C ended

ABOUT = """Multitask feature learning: which features matter everywhere, which
only somewhere, and what to predict for each task.

From a table to an answer:

  mmtfl datasets d1 -o d1.csv
  mmtfl cv d1.csv --task task --target y -o d1.mmtfl
  mmtfl inspect d1.mmtfl
  mmtfl report d1.mmtfl d1.csv -o d1.html
  mmtfl predict d1.mmtfl d1.csv -o predicted.csv
"""


# what `--help` of the commands with many options shows; `--help-all` shows the rest
FIRST_SCREEN = {
    *("DATA", "--target", "--task", "--drop", "--categories", "--reference", "--missing", "--sheet"),
    *("--group", "--time", "--classify", "--loss", "--curves", "--repeats", "--leave-task-out"),
    *("--output", "--json", "--verbose", "--force"),
}
LONG = ("fit", "cv", "compare")

_OBJECTS = 50_000  # new ones between two looks for unreachable cycles; Python's 700 cost an import a tenth

# what was typed, for the record a model keeps
command_words: ContextVar[tuple[str, ...]] = ContextVar("command_words", default=())


# parameters in messages of the library, and the options that set them
_WORDS = (
    (r"The '(\w+)' parameter of \w+", r"--\1"),
    (r"set_params\(unknown_task='mean'\)", "--unknown-task mean"),
    (r"unknown_task='(\w+)'", r"--unknown-task \1"),
    ("standardize=True", "--standardize"),
    ("levels='shrunk'", "--levels shrunk"),
    ("memory_limit", "--memory-limit"),
    (r"impute='median'", "--impute median"),
    (r"^reference: ", "--reference: "),
    (r"^task_weight (names|of)", r"--task-weight \1"),
    ("n_splits=", "--folds "),
    ("metric=", "--scoring "),
    ("scale_targets", "scale-targets"),
    ("max_iter", "max-iter"),
    ("^sample_weight is", "--weights is"),
    (r"^metric '(\w+)' failed", r"--scoring \1 failed"),
    (r"float\('inf'\)", "inf"),
)


class BadInput(Exception):
    """What the user gave cannot be used; the message is one line for them."""


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Parameters
    ----------
    tokens : sequence of str, optional
        The arguments; None for those of the process.

    Returns
    -------
    int
        0; 1 if part of the work failed; 2 for bad input; 3 if a fit did not converge; 130 if interrupted.

    Examples
    --------
    >>> from mmtfl.cli.main import main
    >>> main(["no-such-command"])  # and one line on stderr
    2
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name that the terminal cannot show is no reason to stop
            stream.reconfigure(errors="backslashreplace")
    if tokens is None:  # the process is ours: nothing is gained by a look through all modules at its end
        gc.set_threshold(_OBJECTS)
        atexit.register(gc.freeze)
    try:
        return _run(sys.argv[1:] if tokens is None else list(tokens))
    except KeyboardInterrupt as stop:
        print("mmtfl: interrupted.", *stop.args, file=sys.stderr, flush=True)
        if tokens is None:  # threads may still work: one that writes while Python ends would abort it
            os._exit(INTERRUPTED)
        return INTERRUPTED


def _run(words: list[str]) -> int:
    try:
        cyclopts = require("cyclopts", "cli")
        require("rich", "cli")
    except ImportError as error:
        return _refuse(error)
    command_words.set(tuple(words))
    try:
        asked = ["--help" if word == "--help-all" else word for word in words]
        code = _app(cyclopts, words)(asked, exit_on_error=False, print_error=False)
        sys.stdout.flush()  # here, where a full disk or a closed pipe can still be told
    except cyclopts.UnusedCliTokensError as error:
        return _refuse(BadInput(f"{error} See `mmtfl {words[0]} --help`."))
    except cyclopts.MissingArgumentError as error:
        return _refuse(_missing(error, words))
    except (cyclopts.CycloptsError, BadInput, TableError) as error:
        return _refuse(error)
    except (ValueError, TypeError, ImportError) as error:  # of the library, whose parameters are options here
        if not _is_worded(error):
            raise
        return _refuse(BadInput(_with_options(str(error))))
    except BrokenPipeError:  # whoever read our output has seen enough, as in `mmtfl ... | head`
        _give_up_stdout()
        return 0
    except SystemExit:  # the same, where rich was writing: it ends the process so, and nothing else does
        return 0
    except OSError as error:
        _give_up_stdout()
        # without its number; without strerror it is worded by us already
        spoken = f"{error.filename or 'the output'}: {error.strerror}." if error.strerror else str(error)
        return _refuse(OSError(spoken), FAILED)
    except MemoryError as error:
        ours = "memory_limit" in str(error)  # which has the figures
        return _refuse(error if ours else MemoryError("not enough memory for this table and model."), FAILED)
    return code or 0  # help and version have none


def _app(cyclopts: ModuleType, words: Sequence[str]) -> Any:
    app = cyclopts.App(
        "mmtfl",
        help=ABOUT,
        usage="Usage: mmtfl COMMAND [OPTIONS]",
        version=mmtfl.__version__,
        result_action="return_value",
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
        help_formatter=_short_help()
        if words[0:1] and words[0] in LONG and "--help-all" not in words
        else None,
    )
    for place, (name, (purpose, usage)) in enumerate(COMMANDS.items()):
        # a list of commands imports none of them; the help of one comes from its docstring
        known = {} if name in words[:1] else {"help": purpose}
        usage = f"Usage: mmtfl {name} {usage} [OPTIONS]"
        if name in LONG and "--help-all" not in words:
            usage += f"\n       mmtfl {name} --help-all lists every option"
        place_of = name.replace("-", "_")
        app.command(f"mmtfl.cli.{place_of}:{place_of}", name=name, sort_key=place, usage=usage, **known)
    return app


def _short_help() -> Any:
    """A formatter of help that shows what most people need."""
    from cyclopts.help import DefaultFormatter

    whole = DefaultFormatter()

    def show(console: Any, options: Any, panel: Any) -> None:
        entries = [
            one
            for one in panel.entries
            if not FIRST_SCREEN.isdisjoint([*one.positive_names, one.positional_label])
        ]
        if entries:
            whole(console, options, panel.copy(entries=entries))

    return show


def _is_worded(error: Exception) -> bool:
    """Whether a `raise` in Python made the error, for a reader; of others, the traceback is the message."""
    line = traceback.extract_tb(error.__traceback__)[-1].line
    return not line or line.startswith("raise")


def _with_options(text: str) -> str:
    """An error of the library, in the words of the command line."""
    for ours, theirs in _WORDS:
        text = re.sub(ours, theirs, text)
    return text


def _refuse(error: Exception, code: int = BAD_INPUT) -> int:
    # a table may have several problems, one in each line; messages of others are one line
    lines = str(error).splitlines() if isinstance(error, TableError) else [" ".join(str(error).split())]
    print("\n".join([f"mmtfl: {visible(lines[0])}", *map(visible, lines[1:])]), file=sys.stderr)
    return code


def visible(text: str) -> str:
    r"""A line with its control characters escaped, which a terminal would obey; they may come from a file.

    Examples
    --------
    >>> visible("an array has shape \x1b[31m")
    'an array has shape \\x1b[31m'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _missing(error: Any, words: Sequence[str]) -> Exception:
    """The error for a missing argument, with the command that shows its help."""
    if error.argument is None:
        return BadInput(str(error))
    typed = [name for name in error.argument.names if name in words]
    lack = f"{typed[-1]} needs a value" if typed else f"{words[0]} needs {error.argument.name}"
    swallowed = not error.argument.name.startswith("-") and len(words) > 1 and words[1].startswith("-")
    hint = "put the file first, because an option of several values takes all that follow it; " * swallowed
    return BadInput(f"{lack}: {hint}see `mmtfl {words[0]} --help`.")


def _give_up_stdout() -> None:
    """Point a broken stdout at the null device: what is left in its buffer would fail again at exit."""
    try:
        sys.stdout.flush()
        return
    except OSError:
        pass
    with suppress(OSError, ValueError):  # where stdout is not a file, there is nothing to fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
