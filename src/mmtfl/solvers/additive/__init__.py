"""The additive family A = P + Q: one front door, whatever the pair of norms."""

from mmtfl.solvers.additive.solution import AdditiveSolution
from mmtfl.solvers.additive.solve import AdditiveGrid, additive_descent, solve_additive

__all__ = ["AdditiveGrid", "AdditiveSolution", "additive_descent", "solve_additive"]
