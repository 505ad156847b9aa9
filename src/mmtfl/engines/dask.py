"""The engine for a Dask cluster: the workers load the data and compute on them."""

import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from multiprocessing import resource_tracker
from typing import Any
from uuid import uuid4

from mmtfl.engines import EngineLostError


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Context in which started processes and threads ignore Ctrl-C, and leave it to this process.

    They inherit a mask of signals. A Ctrl-C that comes meanwhile is answered at the end.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # if it were started inside, it would lift the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class DaskEngine:
    """Run the work on the workers of a Dask cluster.

    Nothing is tied to a worker: every part of the data is loaded by a task of Dask's graph. If a worker is
    lost, Dask loads its data again elsewhere and repeats the lost computations. The answer has the same bits
    as on one machine, for any number of workers.

    The workers need this package in the same version. A fit goes on as long as the scheduler lives; see
    ``checkpoint`` of the estimators for the rest.

    Parameters
    ----------
    client : distributed.Client
        A connected client, not an asynchronous one.

    Attributes
    ----------
    bytes_sent, bytes_received : int
        Bytes sent to the cluster and received from it so far.
    n_rounds : int
        Number of times this process has waited for results.

    Examples
    --------
    >>> from distributed import Client
    >>> from mmtfl import DaskEngine
    >>> with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as client:
    ...     engine = DaskEngine(client)
    ...     engine.map(pow, engine.place(int, ["2", "3"]), [3, 2])
    [8, 9]
    """

    is_here = False

    def __init__(self, client: Any):
        try:
            distributed = import_module("distributed")
        except ModuleNotFoundError:
            raise ImportError(
                "distributed is needed here and is not installed: it comes with the extra 'dask' of mmtfl "
                "(in a checkout: pip install '.[dask]')",
                name="distributed",
            ) from None
        if not isinstance(client, distributed.Client):
            raise TypeError(
                f"DaskEngine needs a distributed.Client, got {type(client).__name__}: connect with "
                "distributed.Client('tcp://scheduler:8786'), or start workers here with distributed.Client()."
            )
        if client.asynchronous:
            raise TypeError("DaskEngine needs a client that waits: make it without asynchronous=True.")
        self.client = client
        self._check_workers()
        self.bytes_sent = self.bytes_received = self.n_rounds = 0
        self._run, self._calls = uuid4().hex[:8], count()

    def __repr__(self) -> str:
        return f"DaskEngine({self.client!r})"

    def _check_workers(self) -> None:
        """Refuse workers with another version of this package; warn if there are none yet."""
        with self._told_if_lost("asking for its workers"):
            found = self.client.run(_version, on_error="return")
        if not found:
            message = "The Dask cluster has no workers: a fit waits until one comes. Start some."
            warnings.warn(message, UserWarning, stacklevel=3)
        for worker, version in found.items():
            if version != _version():
                told = f"version {version}" if isinstance(version, str) else "no version that can be imported"
                raise ValueError(
                    f"The Dask worker {worker} has {told} of mmtfl, and this process has {_version()}: "
                    "install the same version everywhere."
                )

    def __deepcopy__(self, memo: dict) -> "DaskEngine":
        return self  # copies of an estimator use the same cluster

    @property
    def n_slots(self) -> int:
        """Number of threads of all workers."""
        with self._told_if_lost("asking for its workers"):
            return max(1, sum(self.client.nthreads().values()))

    def place(self, load: Callable, sources: Sequence[Any], *, name: str = "load") -> list:
        """Let the workers load every source."""
        return self._submit(load, [(source,) for source in sources], name)

    def map(self, function: Callable, *columns: Sequence[Any], keep: bool = False, name: str = "map") -> list:
        """Apply the function where its arguments are; see `Engine.map`."""
        futures = self._submit(function, list(zip(*columns, strict=True)), name)
        if keep:
            return futures
        with self._told_if_lost(f"in {name}"):
            results = self.client.gather(futures)
        self.n_rounds += 1
        self.bytes_received += sum(map(_size, results))
        return results

    def _submit(self, function: Callable, calls: list[tuple], name: str) -> list:
        dask = import_module("dask")
        self.bytes_sent += sum(_size(argument) for call in calls for argument in call)
        # the counter makes keys unique; the dashboard shows what comes before the number of the shard
        key = f"mmtfl-{name}-shard-{{}}-{self._run}-{next(self._calls)}"
        quiet = {"distributed.admin.large-graph-warning-threshold": "1TB"}  # the graph contains the data
        with self._told_if_lost(f"in {name}"), dask.config.set(quiet):
            return [
                self.client.submit(function, *call, key=key.format(i), pure=False)
                for i, call in enumerate(calls)
            ]

    @contextmanager
    def _told_if_lost(self, where: str) -> Iterator[None]:
        distributed = import_module("distributed")
        lost = (OSError, distributed.client.FutureCancelledError, TimeoutError)
        try:
            yield
        except distributed.KilledWorker as error:
            raise EngineLostError(
                f"Dask gave up {where}: several workers ended at {error.task}, most likely for lack of "
                "memory. Use more workers, or give each more memory."
            ) from error
        except lost as error:
            if self.client.status == "running" and isinstance(error, OSError):
                raise  # an error of the function itself, such as a missing file
            raise EngineLostError(
                f"The Dask scheduler was lost {where} ({type(error).__name__}). Start it again and repeat "
                "the fit: with checkpoint= it goes on from the last pass that was saved."
            ) from error


def _version() -> str:
    """The version of this package in the process that asks."""
    return import_module(__name__.partition(".")[0]).__version__


def _size(value: Any) -> int:
    """Approximate number of bytes of the arrays in a value; what the cluster holds counts as zero."""
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, dict):
        return _size(list(value.values()))
    if isinstance(value, tuple | list):
        return sum(map(_size, value))
    if isinstance(value, int | float):
        return 8
    if hasattr(value, "data") and hasattr(value, "indptr"):
        return _size((value.data, value.indices, value.indptr))
    return _size(vars(value)) if hasattr(value, "__dataclass_fields__") else 0
