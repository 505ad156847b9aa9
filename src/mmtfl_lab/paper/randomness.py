"""Random numbers that depend on what they are for, and on nothing that ran before."""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["generator", "seed_for"]


def seed_for(*purpose: int | float | str) -> int:
    """A seed below 2**32 made of the words and numbers that say what it is for.

    Parameters
    ----------
    *purpose : int, float or str
        For example a seed of the user, a dataset, a fraction and a repeat.

    Returns
    -------
    int
        The same for the same purpose, on every machine and in every process.

    Examples
    --------
    >>> from mmtfl_lab.paper.randomness import seed_for
    >>> seed_for(0, "D1", 0.25, 3) == seed_for(0, "D1", 0.25, 3)
    True
    >>> seed_for(0, "D1", 0.25, 3) == seed_for(0, "D1", 0.25, 4)
    False
    """
    text = "\n".join(repr(part) for part in purpose)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def generator(*purpose: int | float | str) -> np.random.Generator:
    """A generator of its own for each purpose."""
    return np.random.default_rng(seed_for(*purpose))
