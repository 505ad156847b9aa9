"""The command `mmtfl`: one module per subcommand, imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import mmtfl
from mmtfl.errors import require


class BadInput(Exception):
    """What the user gave cannot be used; the message is one line for them."""


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 if part of the work failed, 2 for bad input.

    Parameters
    ----------
    tokens : sequence of str, optional
        The arguments; None for those of the process.

    Returns
    -------
    int
        The exit code.

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
    app.command("mmtfl.cli.bench:bench", name="bench", help="Time mmtfl beside other libraries.")
    try:
        code = app(sys.argv[1:] if tokens is None else list(tokens), exit_on_error=False, print_error=False)
    except (cyclopts.CycloptsError, BadInput) as error:
        return _refuse(error)
    return code or 0  # help and version have none


def _refuse(error: Exception) -> int:
    print(f"mmtfl: {' '.join(str(error).split())}", file=sys.stderr)
    return 2
