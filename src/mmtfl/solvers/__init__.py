"""How it is minimised: row descent, Algorithm 1, and the choice between them."""

from mmtfl.solvers.solution import Solution
from mmtfl.solvers.solve import solve

__all__ = ["Solution", "solve"]
