import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    from matplotlib import pyplot as plt

    plt.close("all")


@pytest.fixture(autouse=True, scope="session")
def small_trees():
    """Boosted trees without a grid: most of the time of a report."""
    from mmtfl.report import rivals

    before, rivals.LEAVES, rivals.TREES = (rivals.LEAVES, rivals.TREES), (4,), (40,)
    yield
    rivals.LEAVES, rivals.TREES = before
