"""The tasks of a fit where an engine keeps them, and Algorithm 1's questions to all of them at once."""

from typing import Any
from uuid import uuid4

import numpy as np

from mmtfl.engine.base import Engine
from mmtfl.objective.design import Design
from mmtfl.objective.objective import Objective
from mmtfl.solvers.row_sums import split_evenly, total_norms
from mmtfl.solvers.shards import (
    Held,
    InMemory,
    Spec,
    Update,
    as_is,
    held_by,
    load_shard,
    reply_of,
    run_pass,
)


class PassResult:
    """What all tasks together say of a pass: numbers per feature, and a few of the whole."""

    def __init__(self, replies: list, update: Update, n_features: int, p: float):
        self.loss = float(np.concatenate([reply.losses for reply in replies]).sum())
        self.norms, self.effect = np.zeros((2, n_features))
        self.norms[update.kept] = total_norms([(reply.lengths, reply.norms) for reply in replies], p)
        self.effect[update.kept] = np.max([reply.effect for reply in replies], axis=0)
        self.largest = max(reply.largest for reply in replies)
        self.moved = max(reply.moved for reply in replies)


class Placed:
    """Shards placed by an engine, in the order of the tasks.

    Parameters
    ----------
    engine : Engine
        Places and maps.
    sources : list of Source
        Runs of tasks, one per shard.
    spec : Spec
        How the tasks are seen.
    n_features : int
        Number of features.
    """

    def __init__(self, engine: Engine, sources: list[Any], spec: Spec, n_features: int):
        self.engine, self.spec, self.n_features = engine, spec, n_features
        self.firsts = [source.first for source in sources]
        self.shards = engine.place(load_shard, sources, name="load")
        self.see_as(spec)

    @classmethod
    def of(cls, objective: Objective, engine: Engine) -> "Placed":
        """The tasks of an objective."""
        design = objective.design
        if design.placed is not None:
            return design.placed
        costs = np.diff(design.offsets) + 1.0
        sources = InMemory.cut(design.tasks, split_evenly(costs, engine.n_slots))
        return cls(engine, sources, spec_of(design, objective), design.n_features)

    def see_as(self, spec: Spec) -> None:
        """See the tasks in another way; they stay where they are."""
        self.spec = spec
        self.specs = self.engine.place(as_is, [spec], name="spec") * len(self.shards)

    def ask(self, question, *columns, name: str) -> list:
        """question(shard, spec, ...) of every shard."""
        return self.engine.map(question, self.shards, self.specs, *columns, name=name)

    def pass_over(self, before: list, update: Update, number: int) -> tuple[list, PassResult]:
        """One pass of Algorithm 1 from the coefficients held before; those held now, and what is said."""
        updates = [update] * len(self.shards)
        pairs = self.engine.map(
            run_pass, self.shards, self.specs, before, updates, keep=True, name=f"pass-{number}"
        )
        replies = self.engine.map(reply_of, pairs, name=f"reply-{number}")
        return pairs, PassResult(replies, update, self.n_features, self.spec.p)

    def hold(self, A: np.ndarray, intercept: np.ndarray | None) -> list:
        """Send every shard its coefficients, (n_tasks, n_features)."""
        ends = [*self.firsts[1:], len(A)]
        parts = [slice(lo, hi) for lo, hi in zip(self.firsts, ends, strict=True)]
        held = [(Held(A[part], None if intercept is None else intercept[part]), None) for part in parts]
        return self.engine.place(as_is, held, name="coefficients")

    def bring_home(self, pairs: list) -> Held:
        """The coefficients of all tasks, (n_tasks, n_features), and their intercepts."""
        parts = self.engine.map(held_by, pairs, name="gather")
        return Held(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def spec_of(design: Design, objective: Objective) -> Spec:
    """How the design sees its tasks."""
    return Spec(
        loss=objective.loss,
        p=float(objective.penalty.p),
        fit_intercept=design.fit_intercept,
        mean_size=design.mean_size,
        column_scale=1.0 / design.inverse_scale,
        target_scale=None,
        name=uuid4().hex,
    )
