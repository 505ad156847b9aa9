"""Held-out accuracy where sites agree and where they do not: the default search beside other models.

    MMTFL_DATA=... python benchmarks/agreeing_sites.py [--seeds 400 401 402] [--sets school D1 ...]

Every method is tuned on the training rows of the same split and scored on the others: R^2 of all test rows
about each task's own mean, or for landmine the mean AUC of the tasks. The other methods are written here with
scikit-learn alone, so that they share nothing with ours. A line per method: set, seed, method, score,
processor seconds and what was chosen.
"""

from __future__ import annotations

import argparse
import ast
import os
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.linear_model import LassoCV, LogisticRegressionCV, RidgeCV
from sklearn.metrics import roc_auc_score

import mmtfl
from mmtfl.datasets import make_d1, make_d2

warnings.simplefilter("ignore")
ALPHAS = np.geomspace(1e-4, 1e6, 41)


def load(name: str, seed: int):
    """X, y, task and the part of the rows to train on."""
    if name in ("D1", "D2"):
        data = {"D1": make_d1, "D2": make_d2}[name](random_state=seed)
        return data.X, data.y, data.task, 1 / 3
    folder = Path(os.environ["MMTFL_DATA"])
    if name == "sarcos":
        data = np.load(folder / "sarcos_train_tasks.npz")
        return data["X"], data["y"], data["task"], 0.03
    file = {"parkinsons": "parkinsons_telemonitoring"}.get(name, name)
    data = np.load(folder / f"{file}.npz")
    y = data["Y"][:, 1] if name == "parkinsons" else data["y"]
    X = np.asarray(data["X"], float)
    if name == "school":
        X = X[:, :27]
    fraction = {"school": 0.25, "computer_survey": 0.6, "isolet": 0.2, "parkinsons": 0.25, "landmine": 0.25}
    return X, np.asarray(y, float), data["task"], fraction[name]


def split(y, task, fraction, seed, classify):
    """Rows to train on, a share of every task (of every class in it)."""
    rng = np.random.default_rng([7, seed])
    group = task * 2 + (y > 0) if classify else task
    train = np.zeros(len(y), bool)
    for label in np.unique(group):
        rows = rng.permutation(np.flatnonzero(group == label))
        train[rows[: max(1, round(fraction * len(rows)))]] = True
    return train


def centred(X, y, task):
    """Within-task means of X and y, by label."""
    labels = np.unique(task)
    Xm = np.array([X[task == t].mean(axis=0) for t in labels])
    ym = np.array([y[task == t].mean() for t in labels])
    return labels, Xm, ym


def pooled_ridge(X, y, task, Z, ztask):
    """One ridge for all rows, with an intercept for each task."""
    labels, Xm, ym = centred(X, y, task)
    at, to = np.searchsorted(labels, task), np.searchsorted(labels, ztask)
    scale = X.std(axis=0)
    scale[scale == 0] = 1
    model = RidgeCV(ALPHAS, fit_intercept=False).fit((X - Xm[at]) / scale, y - ym[at])
    return ((Z - Xm[to]) / scale) @ model.coef_ + ym[to]


def per_task(X, y, task, Z, ztask, *, lasso):
    """The better of ridge and lasso (by 5 folds) for each task, or ridge alone."""
    out = np.empty(len(Z))
    scale = X.std(axis=0)
    scale[scale == 0] = 1
    for t in np.unique(task):
        own, new = task == t, ztask == t
        A, b = X[own] / scale, y[own]
        folds = min(5, own.sum())
        ridge = RidgeCV(ALPHAS).fit(A, b)
        model, best = ridge, ridge.best_score_  # minus the mean squared error, rows left out one by one
        if lasso and own.sum() > 5 and np.ptp(b) > 0:
            other = LassoCV(cv=folds, alphas=50).fit(A, b)
            if -other.mse_path_.mean(axis=1).min() > best:
                model = other
        out[new] = model.predict(Z[new] / scale)
    return out


def data_shared_lasso(X, y, task, Z, ztask):
    """Lasso on a common block and one block per task, weighted by 1 / sqrt(T) (Gross and Tibshirani 2016)."""
    from scipy import sparse

    labels, Xm, ym = centred(X, y, task)
    T, d = len(labels), X.shape[1]
    scale = X.std(axis=0)
    scale[scale == 0] = 1

    def design(X, task):
        at = np.searchsorted(labels, task)
        X = (X - Xm[at]) / scale
        rows = np.repeat(np.arange(len(X)), d)
        columns = (at[:, None] * d + np.arange(d)).ravel()
        own = sparse.csr_matrix((X.ravel() * np.sqrt(T), (rows, columns)), shape=(len(X), T * d))
        return sparse.hstack([sparse.csr_matrix(X), own]).tocsc(), ym[at]

    A, shift = design(X, task)
    order = np.random.default_rng(0).permutation(len(y))
    model = LassoCV(cv=5, alphas=40, fit_intercept=False, tol=1e-3).fit(A[order], (y - shift)[order])
    B, shift = design(Z, ztask)
    return B @ model.coef_ + shift


def pretrained_lasso(X, y, task, Z, ztask):
    """A pooled lasso, then one per task with a share of it as an offset (Craig et al. 2025).

    Features outside its support are penalised by one over the rest of that share, which folds choose.
    """
    labels, Xm, ym = centred(X, y, task)
    at, to = np.searchsorted(labels, task), np.searchsorted(labels, ztask)
    scale = X.std(axis=0)
    scale[scale == 0] = 1
    A, b, C = (X - Xm[at]) / scale, y - ym[at], (Z - Xm[to]) / scale
    order = np.random.default_rng(0).permutation(len(b))
    first = LassoCV(cv=5, alphas=50).fit(A[order], b[order])
    support = first.coef_ != 0
    best, answer = np.inf, None
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        factor = np.where(support, 1.0, 1.0 / share if share > 0 else np.inf)
        z, error = np.empty(len(C)), 0.0
        for t in range(len(labels)):
            own, new = at == t, to == t
            offset = (1 - share) * (A[own] @ first.coef_)
            weight = 1.0 / factor
            used = weight > 0
            r = b[own] - offset
            add = (1 - share) * (C[new] @ first.coef_)
            if not used.any() or np.ptp(r) == 0 or own.sum() < 4:
                z[new], error = add, error + (r**2).sum()
                continue
            own_lasso = LassoCV(cv=min(5, own.sum()), alphas=30, fit_intercept=False, tol=1e-3)
            own_lasso.fit(A[own][:, used] * weight[used], r)
            error += own_lasso.mse_path_.mean(axis=1).min() * own.sum()
            z[new] = add + (C[new][:, used] * weight[used]) @ own_lasso.coef_
        if error < best:
            best, answer = error, z
    return answer + ym[to]


def logistic_pooled(X, y, task, Z, ztask):
    """One ridge logistic model for all rows with task intercepts as nearly free columns."""
    labels = np.unique(task)
    scale = X.std(axis=0)

    def design(X, task):
        return np.hstack([X / scale, 3.0 * (task[:, None] == labels)])

    model = LogisticRegressionCV(Cs=10, cv=5, max_iter=300, scoring="neg_log_loss").fit(design(X, task), y)
    return model.decision_function(design(Z, ztask))


def logistic_single(X, y, task, Z, ztask):
    """A ridge logistic model per task."""
    out = np.empty(len(Z))
    scale = X.std(axis=0)
    for t in np.unique(task):
        own, new = task == t, ztask == t
        model = LogisticRegressionCV(Cs=10, cv=3, max_iter=300, scoring="neg_log_loss").fit(
            X[own] / scale, y[own]
        )
        out[new] = model.decision_function(Z[new] / scale)
    return out


def ours(X, y, task, Z, ztask, *, classify, **options):
    """The default search; what it chose is printed beside."""
    kind = mmtfl.MMTFLClassifierCV if classify else mmtfl.MMTFLRegressorCV
    model = kind(standardize=True, n_jobs=1, **options).fit(X, y, task=task)
    chosen = [getattr(model, name, None) for name in ("best_p_", "best_k_", "best_pooling_", "alpha_")]
    z = model.decision_function(Z, task=ztask) if classify else model.predict(Z, task=ztask)
    return z, chosen


def score(y, z, task, classify):
    """R^2 of all rows about the tasks' own means, or the mean of the tasks' AUC."""
    if classify:
        return float(np.mean([roc_auc_score(y[task == t], z[task == t]) for t in np.unique(task)]))
    at = np.unique(task, return_inverse=True)[1]
    means = np.bincount(at, y) / np.bincount(at)
    return 1.0 - float(np.sum((y - z) ** 2) / np.sum((y - means[at]) ** 2))


REGRESSION = {
    "pooled ridge": pooled_ridge,
    "ridge per task": lambda *a: per_task(*a, lasso=False),
    "ridge or lasso per task": lambda *a: per_task(*a, lasso=True),
    "data-shared": data_shared_lasso,
    "pretrained": pretrained_lasso,
}
CLASSES = {"pooled ridge": logistic_pooled, "ridge per task": logistic_single}
SETS = ("school", "computer_survey", "isolet", "parkinsons", "sarcos", "landmine", "D1", "D2")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="*", default=[400, 401, 402])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--options", default="{}")
    args = parser.parse_args()
    options = ast.literal_eval(args.options)
    for name in args.sets:
        for seed in args.seeds:
            X, y, task, fraction = load(name, seed)
            classify = name == "landmine"
            train = split(y, task, fraction, seed, classify)
            rows = (X[train], y[train], task[train], X[~train], task[~train])
            methods = dict(CLASSES if classify else REGRESSION)
            methods["ours"] = partial(ours, classify=classify, **options)
            for method, function in methods.items():
                if args.only and method not in args.only:
                    continue
                began, chosen = time.process_time(), ""
                z = function(*rows)
                if isinstance(z, tuple):
                    z, chosen = z
                took = time.process_time() - began
                found = score(y[~train], z, task[~train], classify)
                print(f"{name}\t{seed}\t{method}\t{found:.4f}\t{took:.1f} s\t{chosen}", flush=True)


if __name__ == "__main__":
    main()
