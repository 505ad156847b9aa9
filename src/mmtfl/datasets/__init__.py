"""Simulated multitask datasets, with a known truth."""

from mmtfl.datasets.simulate import make_d1, make_d2, make_hospitals, make_tasks

__all__ = ["make_d1", "make_d2", "make_hospitals", "make_tasks"]
