"""The made tasks of the benchmark: correlated columns, and some rows of A that all tasks use."""

from typing import ClassVar

from benchopt import BaseDataset

from mmtfl_lab.bench.judged_problems import make_ragged


class Dataset(BaseDataset):
    """T tasks of 100 to 300 rows."""

    name = "Simulated"
    parameters: ClassVar = {"n_tasks": [20], "n_features": [2000], "n_true": [30], "seed": [0]}

    def get_data(self):
        """Make them."""
        sizes = {"n_tasks": self.n_tasks, "n_features": self.n_features, "n_true": self.n_true}
        return {"data": make_ragged(least=100, most=300, seed=self.seed, **sizes)}
