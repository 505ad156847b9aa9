"""The libraries compared, each called in the way that is quickest for it, with what it can solve.

A `Library` turns data, member and strengths into an `Answer`: a function that reads the coefficients. What is
timed is the call, data preparation included; reading the coefficients is not.
"""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import loadmat, savemat

import mmtfl
from mmtfl.errors import install_hint
from mmtfl_lab.bench.judged_problems import (
    TRACE,
    AdditiveProblem,
    AnyProblem,
    Coefficients,
    Data,
    Problem,
    RaggedTasks,
    SharedTasks,
)

Answer = Callable[[], list[Coefficients]]
LADDER = tuple(10.0**-power for power in range(2, 11))  # tolerances 1e-2 .. 1e-10
TEXTBOOK = Path(__file__).resolve().parents[3] / "benchmarks" / "textbook.py"

# what the targets name and this benchmark cannot run, with the reason it gives
NOT_RUN = {
    "mutar": "skipped: not installable (its build fails with current tools)",
}


@dataclass(frozen=True)
class Library:
    """One library, called in one way.

    Attributes
    ----------
    name, form : str
        The name shown, and how it is called; of several forms of one name the quickest is shown.
    module : str
        What must be importable.
    suits : function
        Whether the library can solve a problem of the class `solves`.
    solve : function
        ``solve(problem, tolerance)`` returns an answer.
    hint : float
        Tolerance at which the search for the loosest one begins.
    ladder : tuple of float
        Tolerances to search, from loose to tight.
    solves : type
        Members of the family, or the additive models.
    declines : function
        Why a problem that it could solve is not given to it, for a line of the table; else an empty text.
    """

    name: str
    form: str
    module: str
    suits: Callable[[Any], bool]
    solve: Callable[[Any, float], Answer]
    hint: float
    ladder: tuple[float, ...] = LADDER
    solves: type = Problem
    declines: Callable[[Any], str] = lambda problem: ""

    def takes(self, problem: AnyProblem) -> bool:
        """Whether the library has a line on this problem."""
        return isinstance(problem, self.solves) and self.suits(problem)

    def missing(self) -> str | None:
        """Why the library cannot be used here, or None."""
        if self.module == "textbook":
            absent = "skipped: benchmarks/textbook.py is in a source checkout only"
            return None if TEXTBOOK.exists() else absent
        if self.module == "octave":
            return _missing_malsar()
        try:
            import_module(self.module)
        except Exception as error:  # a library that does not fit the others installed fails in its own way
            reason = "not installed" if isinstance(error, ModuleNotFoundError) else f"import fails ({error})"
            return f"skipped: {reason}; {install_hint('bench')}"
        return None


def _one_strength(problem: Problem) -> bool:
    return len(problem.shares) == 1


def _shared_lasso(problem: Problem) -> bool:
    return isinstance(problem.data, SharedTasks) and (problem.p, problem.k) == (2, 2)


def _one_shared_lasso(problem: Problem) -> bool:
    return _shared_lasso(problem) and _one_strength(problem)


def _group_lasso(problem: Problem) -> bool:
    """Ragged tasks at one strength: a group lasso over columns (feature, task)."""
    ragged = isinstance(problem.data, RaggedTasks) and (problem.p, problem.k) == (2, 2)
    return ragged and _one_strength(problem)


def _ragged_squared(problem: Problem) -> bool:
    return isinstance(problem.data, RaggedTasks) and problem.data.loss == "squared"


def _squared_group_lasso(problem: Problem) -> bool:
    return _group_lasso(problem) and _ragged_squared(problem)


# -- ours ------------------------------------------------------------------------------------------------


def ours(problem: Problem, tol: float, *, solver: str = "auto") -> Answer:
    """The public estimator; for several strengths the public path."""
    data = problem.data
    options: dict[str, Any] = {"p": problem.p, "k": problem.k, "tol": tol}
    options["fit_intercept"] = data.fit_intercept
    if len(problem.alphas) == 1:
        Model = mmtfl.MMTFLRegressor if data.loss == "squared" else mmtfl.MMTFLClassifier
        model = Model(alpha=float(problem.alphas[0]), solver=solver, **options)
        model.fit(data.X, data.y, data.task)
        return lambda: [(model.coef_.T, model.intercept_)]
    path = mmtfl.path(data.X, data.y, data.task, alphas=problem.alphas, loss=data.loss, **options)
    return lambda: [(path.coef(i).T, path.intercepts[i]) for i in range(len(path))]


# -- one X for all tasks ---------------------------------------------------------------------------------


def scikit_learn(problem: Problem, tol: float) -> Answer:
    """`MultiTaskLasso`, started from its last answer when there are several strengths."""
    from sklearn.linear_model import MultiTaskLasso

    data, found = problem.data, []
    model = MultiTaskLasso(fit_intercept=data.fit_intercept, tol=tol, max_iter=100_000, warm_start=True)
    for alpha in problem.alphas:
        model.set_params(alpha=alpha).fit(data.X, data.y)
        found.append((model.coef_.T.copy(), np.copy(model.intercept_)))
    return lambda: found


def scikit_learn_path(problem: Problem, tol: float) -> Answer:
    """`lasso_path` on centred data."""
    from sklearn.linear_model import lasso_path

    X, Y, restore = _centre(problem.data)
    coefs = lasso_path(X, Y, alphas=problem.alphas, tol=tol, max_iter=100_000)[1]
    return lambda: restore(np.moveaxis(coefs, 2, 0))


def celer(problem: Problem, tol: float) -> Answer:
    """`mtl_path`; the estimator does not run with current scikit-learn."""
    from celer.homotopy import mtl_path

    X, Y, restore = _centre(problem.data)
    coefs = mtl_path(X, Y, alphas=problem.alphas, tol=tol)[1]
    return lambda: restore(np.moveaxis(coefs, 2, 0))


def skglm(problem: Problem, tol: float) -> Answer:
    """`MultiTaskLasso`, started from its last answer when there are several strengths."""
    from skglm import MultiTaskLasso

    data, found = problem.data, []
    model = MultiTaskLasso(fit_intercept=data.fit_intercept, tol=tol, warm_start=True)
    for alpha in problem.alphas:
        model.set_params(alpha=float(alpha)).fit(data.X, data.y)
        found.append((model.coef_.T.copy(), np.broadcast_to(model.intercept_, data.n_tasks).copy()))
    return lambda: found


def adelie(problem: Problem, tol: float, *, n_steps: int = 1) -> Answer:
    """`grpnet` with several responses."""
    import adelie

    data = problem.data
    state = adelie.grpnet(
        X=np.asfortranarray(data.X),
        glm=adelie.glm.multigaussian(data.y),
        penalty=np.ones(data.X.shape[1]),
        lmda_path=_approach(problem, n_steps) / data.n_tasks,
        intercept=data.fit_intercept,
        **_adelie_options(tol),
    )

    def read() -> list[Coefficients]:
        A = state.betas.toarray().reshape(-1, data.X.shape[1], data.n_tasks)
        b = np.asarray(state.intercepts).reshape(len(A), -1)
        return list(zip(A, b, strict=True))[-len(problem.alphas) :]

    return read


def _centre(data: Data):
    """Centred X and Y, and the way from coefficients (n_alphas, T, d) back to A and intercepts."""
    means, centre = data.X.mean(axis=0), data.y.mean(axis=0)
    if not data.fit_intercept:
        means, centre = np.zeros_like(means), np.zeros_like(centre)
    X = np.asfortranarray(data.X - means)

    def restore(coefs: np.ndarray) -> list[Coefficients]:
        return [(coef.T, centre - coef @ means) for coef in coefs]

    return X, data.y - centre, restore


# -- tasks with their own rows, as a group lasso -----------------------------------------------------------


def adelie_groups(problem: Problem, tol: float, *, n_steps: int = 1) -> Answer:
    """`grpnet` on the block design."""
    import adelie

    data = _ragged(problem)
    binomial = data.loss == "logistic"
    state = adelie.grpnet(
        X=adelie.matrix.sparse(block_columns(data), method="naive"),
        glm=(adelie.glm.binomial if binomial else adelie.glm.gaussian)(data.y),
        groups=np.arange(data.X.shape[1]) * data.n_tasks,
        penalty=np.ones(data.X.shape[1]),
        lmda_path=_approach(problem, n_steps) / data.n_tasks,  # its loss is a mean over all rows
        intercept=False,
        irls_tol=tol,
        **_adelie_options(tol),
    )
    return lambda: _unstack(data, state.betas[-1].toarray())


def celer_groups(problem: Problem, tol: float) -> Answer:
    """`celer_path` on the block design."""
    from celer.homotopy import celer_path

    data = _ragged(problem)
    alphas = problem.alphas / data.n_tasks
    options = {"pb": "grouplasso", "groups": data.n_tasks, "alphas": alphas, "tol": tol}
    coefs = celer_path(block_columns(data), data.y, **options)[1]
    return lambda: _unstack(data, coefs[:, -1])


def skglm_groups(problem: Problem, tol: float) -> Answer:
    """`GroupLasso` on the block design."""
    from skglm import GroupLasso

    data = _ragged(problem)
    alpha = float(problem.alphas[-1]) / data.n_tasks
    model = GroupLasso(groups=data.n_tasks, alpha=alpha, tol=tol, fit_intercept=False)
    model.fit(block_columns(data), data.y)
    return lambda: _unstack(data, model.coef_)


def _too_wide(problem: Problem) -> str:
    """On `ragged`, with 2000 features, these take seconds; twenty thousand are not asked of them."""
    n_features = problem.data.X.shape[1]
    return f"skipped: {n_features} features are too many for it" if n_features > _WIDE else ""


def _ragged(problem: Problem) -> RaggedTasks:
    assert isinstance(problem.data, RaggedTasks)
    return problem.data


def block_columns(data: RaggedTasks) -> sparse.csc_matrix:
    """Design (N, d T) with column j T + t equal to feature j of task t: groups of T neighbours, no gaps.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl_lab.bench.judged_problems import RaggedTasks
    >>> from mmtfl_lab.bench.libraries import block_columns
    >>> data = RaggedTasks(np.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]), np.zeros(3), np.array([0, 0, 1]))
    >>> block_columns(data).toarray()
    array([[1., 0., 4., 0.],
           [2., 0., 5., 0.],
           [0., 3., 0., 6.]])
    """
    n_rows, d = data.X.shape
    if sparse.issparse(data.X):
        entries = data.X.tocoo()
        columns = entries.col.astype(np.int64) * data.n_tasks + data.task[entries.row]
        return sparse.csc_matrix((entries.data, (entries.row, columns)), shape=(n_rows, d * data.n_tasks))
    values = np.ascontiguousarray(data.X.T).ravel()
    rows = np.tile(np.arange(n_rows, dtype=np.int32), d)
    ends = np.r_[0, np.cumsum(np.tile(np.diff(data.offsets), d))].astype(np.int32)
    return sparse.csc_matrix((values, rows, ends), shape=(n_rows, d * data.n_tasks))


def _unstack(data: RaggedTasks, coef: np.ndarray) -> list[Coefficients]:
    return [(np.reshape(coef, (data.X.shape[1], data.n_tasks)), np.zeros(data.n_tasks))]


def _approach(problem: Problem, n_steps: int) -> np.ndarray:
    """Strengths on the way to a single one: its screening is often quicker for a short path than at once."""
    if n_steps == 1:
        return problem.alphas
    return problem.top * np.geomspace(1.0, problem.shares[0], n_steps + 1)[1:]


def _adelie_options(tol: float) -> dict[str, Any]:
    return {"tol": tol, "progress_bar": False, "early_exit": False, "n_threads": 1}


def malsar(problem: Problem, tol: float) -> Answer:
    """MALSAR's `Least_L21` in Octave; its start and the files that carry the data are part of the time."""
    data = _ragged(problem)
    with tempfile.TemporaryDirectory() as folder:
        cells = {"X": [X for X, _ in data.parts()], "Y": [y[:, None] for _, y in data.parts()]}
        content = {name: np.array([*parts, None], dtype=object)[:-1] for name, parts in cells.items()}
        savemat(Path(folder, "in.mat"), {**content, "rho": float(problem.alphas[0]) * data.mean_size})
        code = _MALSAR_CODE.format(home=os.environ["MALSAR"], folder=folder, tol=tol)
        subprocess.run(["octave-cli", "--eval", code], check=True, capture_output=True)
        W = loadmat(Path(folder, "out.mat"))["W"]
    return lambda: [(W, np.zeros(data.n_tasks))]


_MALSAR_CODE = """
addpath(genpath('{home}')); load('{folder}/in.mat');
opts.init = 2; opts.tFlag = 1; opts.tol = {tol}; opts.maxIter = 100000;
W = Least_L21(X, Y, rho, opts); save('-v7', '{folder}/out.mat', 'W');
"""


def _missing_malsar() -> str | None:
    if shutil.which("octave-cli") is None:
        return "skipped: Octave, in which MALSAR runs, is not installed"
    if not os.environ.get("MALSAR"):
        return "skipped: set the environment variable MALSAR to the folder of the toolbox"
    return None


# -- additive models -------------------------------------------------------------------------------------


def ours_additive(problem: AdditiveProblem, tol: float) -> Answer:
    """The public estimator of the pair."""
    data, pair = problem.data, problem.pair
    model = pair.model(*problem.alphas[0], fit_intercept=data.fit_intercept, tol=tol)
    model.fit(data.X, data.y, data.task)
    return lambda: [(np.stack([model.shared_.T, getattr(model, pair.second).T]), model.intercept_)]


def conic(problem: AdditiveProblem, tol: float) -> Answer:
    """cvxpy with Clarabel, modelling included."""
    cp: Any = import_module("cvxpy")
    data, (alpha_shared, alpha_specific) = problem.data, problem.alphas[0]
    shape = data.X.shape[1], data.n_tasks
    # the sum as a variable: every X_t is then among the constraints once, where P and Q would have it twice
    A, Q = cp.Variable(shape), cp.Variable(shape)
    b: Any = cp.Variable(data.n_tasks) if data.fit_intercept else np.zeros(data.n_tasks)
    losses = [cp.sum_squares(y - X @ A[:, t] - b[t]) for t, (X, y) in enumerate(data.parts())]
    value = 0.5 * sum(losses) / data.mean_size
    value += alpha_shared * problem.pair.shared.conic(cp, A - Q)
    value += alpha_specific * problem.pair.specific.conic(cp, Q)
    tolerances = {f"tol_{name}": tol for name in ("gap_abs", "gap_rel", "feas")}
    cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL, max_threads=1, **tolerances)
    return lambda: [(np.stack([A.value - Q.value, Q.value]), b.value if data.fit_intercept else b)]


def _too_large_a_cone(problem: AdditiveProblem) -> str:
    """The trace norm is a semidefinite cone; Clarabel keeps a dense matrix with a row per entry of it."""
    side = problem.data.X.shape[1] + problem.data.n_tasks
    gigabytes = 8e-9 * (0.5 * side * (side + 1)) ** 2
    needed = problem.pair.shared is TRACE and gigabytes > _CONE_GIGABYTES
    return f"skipped: the semidefinite form needs {gigabytes:.0f} GB of memory" if needed else ""


# -- Algorithm 1 -----------------------------------------------------------------------------------------


@cache
def _textbook() -> Any:
    spec = importlib.util.spec_from_file_location("textbook", TEXTBOOK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def textbook(problem: Problem, tol: float) -> Answer:
    """benchmarks/textbook.py."""
    data = _ragged(problem)
    alpha = float(problem.alphas[0])
    A, _ = _textbook().algorithm1(list(data.parts()), p=problem.p, k=problem.k, alpha=alpha, tol=tol)
    return lambda: [(A, np.zeros(data.n_tasks))]


def _textbook_takes(problem: Problem) -> bool:
    return _ragged_squared(problem) and not problem.is_convex


_TIGHTER = (*LADDER, 1e-11, 1e-12, 1e-13)  # adelie's tolerance is for squares of what moves
_CONE_GIGABYTES = 1.0
_WIDE = 10_000
_ONCE = (1e-8,)  # Clarabel's default: a run takes too long for a search
_COARSER = (1e-1, *LADDER[:5])  # an entry of A is of the order of one; the last is "run to the end"

LIBRARIES: Sequence[Library] = (
    Library("mmtfl", "estimator", "mmtfl", _one_strength, ours, 1e-4),
    Library("mmtfl", "path", "mmtfl", lambda problem: not _one_strength(problem), ours, 1e-4),
    Library(
        *("mmtfl-alternating", 'estimator, solver="alternating"', "mmtfl"),
        *(_ragged_squared, partial(ours, solver="alternating"), 1e-2),
    ),
    Library("scikit-learn", "MultiTaskLasso", "sklearn", _shared_lasso, scikit_learn, 1e-4),
    Library("scikit-learn", "lasso_path", "sklearn", _shared_lasso, scikit_learn_path, 1e-4),
    Library("adelie", "grpnet", "adelie", _shared_lasso, adelie, 1e-8, _TIGHTER),
    Library("adelie", "grpnet", "adelie", _group_lasso, adelie_groups, 1e-8, _TIGHTER),
    *(
        Library("adelie", f"grpnet, path of {n}", "adelie", takes, partial(solve, n_steps=n), 1e-8, _TIGHTER)
        for takes, solve in ((_one_shared_lasso, adelie), (_group_lasso, adelie_groups))
        for n in (2, 4)
    ),
    Library("celer", "mtl_path", "celer", _shared_lasso, celer, 1e-4),
    Library(
        *("celer", "celer_path, groups", "celer", _squared_group_lasso, celer_groups, 1e-3),
        declines=_too_wide,
    ),
    Library("skglm", "MultiTaskLasso", "skglm", _shared_lasso, skglm, 1e-3),
    Library(
        *("skglm", "GroupLasso", "skglm", _squared_group_lasso, skglm_groups, 1e-3),
        declines=_too_wide,
    ),
    Library("MALSAR", "Least_L21", "octave", _squared_group_lasso, malsar, 1e-5, declines=_too_wide),
    Library("textbook", "benchmarks/textbook.py", "textbook", _textbook_takes, textbook, 1e-3, _COARSER),
    Library("mmtfl", "estimator", "mmtfl", lambda problem: True, ours_additive, 1e-4, solves=AdditiveProblem),
    Library(
        *("cvxpy", "Clarabel", "cvxpy", lambda problem: True, conic, _ONCE[0], _ONCE),
        solves=AdditiveProblem,
        declines=_too_large_a_cone,
    ),
)
NAMES = tuple(dict.fromkeys(library.name for library in LIBRARIES))
