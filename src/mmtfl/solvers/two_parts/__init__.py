"""The additive family A = P + Q: one front door, whatever the pair of norms."""

from mmtfl.solvers.solution import AdditiveSolution
from mmtfl.solvers.two_parts.solve_two_parts import AdditiveGrid, additive_descent, solve_additive

__all__ = ["AdditiveGrid", "AdditiveSolution", "additive_descent", "solve_additive"]
