"""Telling on stderr how far the passes of Algorithm 1 are."""

import sys
from time import monotonic

_SECONDS = 1.0  # between two lines, at least


class Reporter:
    """Print the passes, the objective, how much A still moves and the features left, a line a second at most.

    Parameters
    ----------
    name : str
        Of the model.
    """

    def __init__(self, name: str):
        self.name, self._last = name, monotonic()

    def __call__(self, n_passes: int, objective: float, change: float, n_kept: int) -> None:
        """Tell of one pass, unless another was told of just now."""
        if monotonic() - self._last >= _SECONDS:
            self._last = monotonic()
            print(
                f"[{self.name}] pass {n_passes}: objective {objective:.6g}, A moves by {change:.1e} of its "
                f"size, {n_kept} features left",
                file=sys.stderr,
                flush=True,
            )
