"""The tasks of a fit where an engine keeps them, and Algorithm 1's questions to all of them at once."""

from dataclasses import replace
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from mmtfl.engines.base import Engine
from mmtfl.objective.problem import Problem
from mmtfl.solvers.distributed import shards
from mmtfl.solvers.distributed.shards import (
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
from mmtfl.solvers.distributed.tree_sums import split_evenly, total_norms


class PassResult(NamedTuple):
    """What all tasks together say of a pass: numbers per feature, and a few of the whole."""

    loss: float
    norms: np.ndarray  # p-norms of the rows
    effect: np.ndarray
    largest: float
    moved: float
    sums: np.ndarray | None  # with pooling, of the rows

    @classmethod
    def of(cls, replies: list, update: Update, n_features: int) -> "PassResult":
        """What the shards said, summed in the order of the tasks."""
        norms, effect, sums = np.zeros((3, n_features))
        norms[update.kept] = total_norms([(reply.lengths, reply.norms) for reply in replies], update.p)
        effect[update.kept] = np.max([reply.effect for reply in replies], axis=0)
        if update.common is not None:
            sums[update.kept] = total_norms([(reply.lengths, reply.sums) for reply in replies], 1.0)
        return cls(
            loss=float(np.concatenate([reply.losses for reply in replies]).sum()),
            norms=norms,
            effect=effect,
            largest=max(reply.largest for reply in replies),
            moved=max(reply.moved for reply in replies),
            sums=None if update.common is None else sums,
        )


class Placed:
    """Shards placed by an engine, in the order of the tasks, and how their tasks are seen.

    Parameters
    ----------
    engine : Engine
        Places and maps.
    shards : list
        Where the engine has placed them.
    firsts : list of int
        Position of each shard's first task among all tasks.
    spec : Spec
        How the tasks are seen.
    n_features : int
        Number of features.
    """

    def __init__(self, engine: Engine, shards: list, firsts: list[int], spec: Spec, n_features: int):
        self.engine, self.shards, self.firsts = engine, shards, firsts
        self.spec, self.n_features = spec, n_features
        self.specs = engine.place(as_is, [spec], name="spec") * len(shards)

    @classmethod
    def load(cls, engine: Engine, sources: list[Any], spec: Spec, n_features: int) -> "Placed":
        """Have every source of tasks read where the engine places it."""
        shards = engine.place(load_shard, sources, name="load")
        return cls(engine, shards, [source.first for source in sources], spec, n_features)

    @classmethod
    def of(cls, problem: Problem, engine: Engine) -> "Placed":
        """The tasks of a problem."""
        design = problem.design
        if design.placed is not None:
            return design.placed
        costs = np.diff(design.offsets) + 1.0
        sources = InMemory.cut(design.tasks, split_evenly(costs, engine.n_slots))
        spec = Spec(
            loss=problem.loss,
            fit_intercept=design.fit_intercept,
            mean_size=design.mean_size,
            column_scale=1.0 / design.inverse_scale,
            target_scale=None,
            name=uuid4().hex,
        )
        return cls.load(engine, sources, spec, design.n_features)

    def seen_as(self, **changes) -> "Placed":
        """The same shards, seen in another way; they stay where they are."""
        spec = replace(self.spec, **changes, name=uuid4().hex)
        return Placed(self.engine, self.shards, self.firsts, spec, self.n_features)

    def ask(self, question, *columns, name: str) -> list:
        """question(shard, spec, ...) of every shard."""
        return self.engine.map(question, self.shards, self.specs, *columns, name=name)

    def ask_tasks(self, question, *columns, name: str) -> list[np.ndarray]:
        """The answers of all shards to a question that has arrays with one entry per task, joined."""
        answers = self.ask(question, *columns, name=name)
        return [np.concatenate(column) for column in zip(*answers, strict=True)]

    def pass_over(self, before: list, update: Update, number: int) -> tuple[list, PassResult]:
        """One pass of Algorithm 1 from the coefficients held before; those held now, and what is said."""
        updates = [update] * len(self.shards)
        pairs = self.engine.map(
            run_pass, self.shards, self.specs, before, updates, keep=True, name=f"pass-{number}"
        )
        replies = self.engine.map(reply_of, pairs, name=f"reply-{number}")
        return pairs, PassResult.of(replies, update, self.n_features)

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

    def judge(self, pairs: list) -> tuple[np.ndarray, float, float]:
        """At the coefficients held: the gradient in A, the largest slope of an intercept, and the loss."""
        gradient, slope, loss = self.ask_tasks(shards.judge, pairs, name="judge")
        return np.ascontiguousarray(gradient.T), float(np.abs(slope).max()), float(loss.sum())

    def dual(self, pairs: list, shrink: float) -> float:
        """Dual value of the loss at `shrink` times the dual point of the coefficients held; eq. (9)."""
        parts = self.ask(shards.dual, pairs, [shrink] * len(self.shards), name="dual")
        return float(np.concatenate(parts).sum())
