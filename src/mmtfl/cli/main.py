"""The command `mmtfl`: one module per subcommand, imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import mmtfl
from mmtfl.errors import require

# name: what it does; the function of that name lives in the module of that name
COMMANDS = {
    "bench": "Time mmtfl beside other libraries.",
}

INTERRUPTED = 130  # as shells report a program that Ctrl-C ended


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
    try:
        cyclopts = require("cyclopts", "cli")
        require("rich", "cli")
    except ImportError as error:
        return _refuse(error)
    app = cyclopts.App(
        "mmtfl", help="Multitask feature learning.", version=mmtfl.__version__, result_action="return_value"
    )
    for name, purpose in COMMANDS.items():
        app.command(f"mmtfl.cli.{name}:{name}", name=name, help=purpose)
    try:
        code = app(sys.argv[1:] if tokens is None else list(tokens), exit_on_error=False, print_error=False)
    except (cyclopts.CycloptsError, BadInput) as error:
        return _refuse(error)
    except KeyboardInterrupt:
        print("mmtfl: interrupted.", file=sys.stderr)
        return INTERRUPTED
    return code or 0  # help and version have none


def _refuse(error: Exception) -> int:
    print(f"mmtfl: {' '.join(str(error).split())}", file=sys.stderr)
    return 2
