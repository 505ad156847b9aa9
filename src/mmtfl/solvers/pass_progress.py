"""Progress of Algorithm 1 on stderr, one line a second at most."""

import sys
from time import monotonic

_SECONDS = 1.0  # between two lines, at least


class Reporter:
    """Print the pass, the objective, how far A moved and the features left.

    Parameters
    ----------
    name : str
        Of the model.
    """

    def __init__(self, name: str):
        self.name, self._last = name, monotonic()

    def __call__(self, n_passes: int, objective: float, change: float, n_kept: int) -> None:
        """Print one pass, unless the last line is younger than a second."""
        if monotonic() - self._last >= _SECONDS:
            self._last = monotonic()
            print(
                f"[{self.name}] pass {n_passes}: objective {objective:.6g}, A moves by {change:.1e} of its "
                f"size, {n_kept} features left",
                file=sys.stderr,
                flush=True,
            )
