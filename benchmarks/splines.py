"""How much of boosted trees' lead curves take: straight lines, splines and trees on the same splits.

    python benchmarks/splines.py parkinsons isolet --repeats 2 --most-features 60

Every numeric column becomes a spline with the knots of the training rows, and is a group ("splines"); or it
is none, so that pooling can be tried ("pooled"). Of isolet, whose 617 columns would become 3702, the columns
that straight lines weigh most are taken for all.
"""

import argparse
import time
from dataclasses import replace

import numpy as np

from mmtfl import MMTFLRegressorCV
from mmtfl.tables.column_encoding import FEWEST_VALUES, learn_knots, spline_basis
from mmtfl_lab.paper.borrowed_methods import fit_boosting
from mmtfl_lab.paper.data_sets import PROBLEMS, load_pool, make_split
from mmtfl_lab.paper.protocol import score_rows

FRACTIONS = {"parkinsons": 0.25, "isolet": 0.15}


def search(split, options, groups=None):
    """The family's search with the settings of the comparison."""
    tuning = {"alphas": 30, "tol": 1e-4, "cv": split.folds(3), "pk": ((2, 2), (2, 1))}
    tuning["feature_groups"] = groups
    train = split.train
    return MMTFLRegressorCV(**tuning, **options).fit(train.X, train.y, task=train.task)


def curved(split):
    """The same split with a spline in the place of every column, and the groups of these columns."""
    train, test, groups, done = [], [], [], 0
    for j in range(split.train.X.shape[1]):
        own, other = split.train.X[:, j], split.test.X[:, j]
        if len(np.unique(own)) >= FEWEST_VALUES:
            knots = learn_knots(own, str(j))
            own, other = spline_basis(own, knots), spline_basis(other, knots)
        own, other = own.reshape(len(own), -1), other.reshape(len(other), -1)
        groups.append(list(range(done, done + own.shape[1])))
        done += own.shape[1]
        train.append(own)
        test.append(other)
    parts = [replace(part, X=np.hstack(X)) for part, X in ((split.train, train), (split.test, test))]
    return replace(split, train=parts[0], test=parts[1]), groups


def largest(split, options, most):
    """The split with the columns that straight lines weigh most."""
    if split.train.X.shape[1] <= most:
        return split
    found = search(split, options)
    kept = np.sort(np.argsort(-found.c_ * found.column_scale_)[:most])
    parts = [replace(part, X=part.X[:, kept]) for part in (split.train, split.test)]
    return replace(split, train=parts[0], test=parts[1])


def run(name, repeat, most):
    """Scores of the three on one split, with processor seconds."""
    problem, pool = PROBLEMS[name], load_pool(name, 0)
    split = make_split(problem, pool, FRACTIONS[name], 0, name, FRACTIONS[name], repeat)
    options = dict(problem.options)
    split = largest(split, options, most)
    bent, groups = curved(split)
    answers = {
        "lines": lambda: (search(split, options).predict, split.test),
        "splines": lambda: (search(bent, options, groups).predict, bent.test),
        "pooled": lambda: (search(bent, options).predict, bent.test),
        "trees": lambda: (fit_boosting(split, False, options, 3)[0], split.test),
    }
    for method, fit in answers.items():
        began = time.process_time()
        predict, test = fit()
        score = score_rows("r2", test.y, predict(test.X, test.task), test.task)["pooled"]
        seconds = time.process_time() - began
        print(f"{name:12s} {repeat} {method:8s} R^2 {score:.3f}  {seconds:6.1f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="+", choices=sorted(FRACTIONS))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--most-features", type=int, default=60)
    asked = parser.parse_args()
    for dataset in asked.datasets:
        for number in range(asked.repeats):
            run(dataset, number, asked.most_features)
