"""The engine for one machine: threads over tasks."""

from collections.abc import Callable, Sequence
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs


class Threads:
    """Run per-task work in threads of this process.

    Every task's result depends on its own arguments alone and comes back in task order, so the answer has
    the same bits for any number of threads.

    Parameters
    ----------
    n_jobs : int or None
        Threads, as in joblib; None means 1.

    Examples
    --------
    >>> from mmtfl.engine.threads import Threads
    >>> engine = Threads(n_jobs=2)
    >>> engine.map(pow, engine.place([2, 3]), [3, 2])
    [8, 9]
    """

    def __init__(self, n_jobs: int | None = None):
        self.n_jobs = n_jobs

    def place(self, items: Sequence[Any]) -> list:
        """Nothing moves: the items are here already."""
        return list(items)

    def map(self, function: Callable, placed: list, *per_task: Sequence[Any]) -> list:
        """Apply the function to every item and its arguments."""
        n_threads = min(effective_n_jobs(self.n_jobs), len(placed))
        calls = zip(placed, *per_task, strict=True)
        if n_threads <= 1:
            return [function(*call) for call in calls]
        # batches: one dispatch per task would cost more than a small task itself
        return Parallel(n_jobs=n_threads, backend="threading", batch_size="auto")(
            delayed(function)(*call) for call in calls
        )
