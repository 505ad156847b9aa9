"""A new engine: worker processes, each of which keeps what was placed with it."""

import multiprocessing
import weakref
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import count

_KEPT = {}  # in a worker: what it keeps, by key


class Kept:
    """Something that a worker keeps."""

    def __init__(self, worker, key):
        self.worker, self.key = worker, key


def _run(function, arguments, key):
    """In a worker: call the function with what is kept in place of its references."""
    result = function(*(_KEPT[one.key] if isinstance(one, Kept) else one for one in arguments))
    if key is None:
        return result
    _KEPT[key] = result
    return None


def _drop(key):
    del _KEPT[key]


def _itself(value):
    return value


class ProcessEngine:
    """Run the work in processes of this machine; close it, or use it in a `with` statement."""

    is_here = False  # the data leave the memory of this process

    def __init__(self, n_workers=2):
        self.n_slots = n_workers
        spawn = multiprocessing.get_context("spawn")
        self._pools = [ProcessPoolExecutor(1, mp_context=spawn) for _ in range(n_workers)]
        self._keys = count()

    def place(self, load, sources, *, name="load"):
        """Have the workers load the sources in turn, and keep them."""
        return self.map(load, sources, keep=True, name=name)

    def map(self, function, *columns, keep=False, name="map"):
        """Call the function where its first kept argument is; results in order, or references to them."""
        calls = [self._submit(i, function, call, keep) for i, call in enumerate(zip(*columns, strict=True))]
        results = [future.result() for future, _ in calls]
        return [reference for _, reference in calls] if keep else results

    def _submit(self, i, function, call, keep):
        workers = [one.worker for one in call if isinstance(one, Kept)]
        worker = workers[0] if workers else i % self.n_slots
        arguments = [self._at(worker, one) for one in call]
        reference = self._refer(worker) if keep else None
        key = None if reference is None else reference.key
        return self._pools[worker].submit(_run, function, arguments, key), reference

    def _at(self, worker, argument):
        """The argument as the worker can have it: what another one keeps is fetched first."""
        if not isinstance(argument, Kept) or argument.worker == worker:
            return argument
        return self._pools[argument.worker].submit(_run, _itself, [argument], None).result()

    def _refer(self, worker):
        """A new reference; the worker drops what it keeps when the last copy of the reference is gone."""
        reference = Kept(worker, next(self._keys))
        weakref.finalize(reference, self._forget, worker, reference.key).atexit = False
        return reference

    def _forget(self, worker, key):
        with suppress(RuntimeError):  # the pool is closed already
            self._pools[worker].submit(_drop, key)

    def close(self):
        """End the workers."""
        for pool in self._pools:
            pool.shutdown()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __deepcopy__(self, memo):
        return self  # copies of an estimator share the workers
