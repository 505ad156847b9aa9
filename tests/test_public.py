"""The public surface: the names people rely on, their signatures, their docs, and what importing costs."""

import doctest
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.utils._param_validation import validate_parameter_constraints

import mmtfl
import mmtfl.datasets
import mmtfl.model_selection
import mmtfl.plots
from mmtfl import MMTFLClassifier, MMTFLClassifierCV, MMTFLRegressor, MMTFLRegressorCV
from mmtfl.estimators.parameters import Declared

ROOT = Path(__file__).resolve().parent.parent
MODULES = ["mmtfl", "mmtfl.datasets", "mmtfl.model_selection", "mmtfl.plots"]
ESTIMATORS = [MMTFLRegressor, MMTFLRegressorCV, MMTFLClassifier, MMTFLClassifierCV]
NAMES = [(module, name) for module in MODULES for name in importlib.import_module(module).__all__]


def public(module, name):
    return getattr(importlib.import_module(module), name)


def parameters(function, kind=None):
    """Names of the parameters without self; of one kind if asked."""
    found = inspect.signature(function).parameters.values()
    return [p.name for p in found if p.name != "self" and kind in (None, p.kind)]


# -- signatures ----------------------------------------------------------------------------------------------

SHARED = [
    *("fit_intercept", "standardize", "task_column", "unknown_task", "solver", "max_iter", "tol"),
    *("warm_start", "n_jobs", "engine", "verbose"),
]


@pytest.mark.parametrize("Model", [MMTFLRegressor, MMTFLClassifier])
def test_models_take_p_k_alpha_by_position_and_the_rest_by_name(Model):
    assert parameters(Model, inspect.Parameter.POSITIONAL_OR_KEYWORD) == ["p", "k", "alpha"]
    assert set(SHARED) <= set(parameters(Model, inspect.Parameter.KEYWORD_ONLY))  # whose order is free
    assert (Model().p, Model().k) == (2, 1)
    assert Model().unknown_task == "error"
    assert Model().solver == "auto"
    assert Model().fit_intercept


@pytest.mark.parametrize("Model", [MMTFLRegressorCV, MMTFLClassifierCV])
def test_searches_take_pk_alphas_cv_by_position_and_the_rest_by_name(Model):
    assert parameters(Model, inspect.Parameter.POSITIONAL_OR_KEYWORD) == ["pk", "alphas", "cv"]
    assert {*SHARED} - {"warm_start"} <= set(parameters(Model, inspect.Parameter.KEYWORD_ONLY))
    assert Model().pk == ((2, 2), (1, 1), (2, 1), (1, 2))
    assert Model().alphas == 100
    assert Model().cv is None


@pytest.mark.parametrize("Model", ESTIMATORS)
def test_methods_take_rows_targets_and_labels_in_this_order(Model):
    own = ["groups"] if hasattr(Model(), "cv") else []
    assert parameters(Model.fit) == ["X", "y", "task", "sample_weight", "offset", *own]
    assert parameters(Model.predict) == ["X", "task", "offset"]
    assert parameters(Model.score)[:3] == ["X", "y", "task"]
    assert parameters(Model.summary) == []
    for method in ("predict_proba", "decision_function"):
        if hasattr(Model, method):
            assert parameters(getattr(Model, method)) == ["X", "task", "offset"]
    assert hasattr(Model(), "predict_proba") == issubclass(Model, (MMTFLClassifier, MMTFLClassifierCV))


def test_functions_have_the_promised_signatures():
    assert parameters(mmtfl.alpha_from_gammas) == ["gamma1", "gamma2", "p", "k", "constants"]
    assert parameters(mmtfl.gammas_from_alpha) == ["alpha", "p", "k", "ratio"]
    keywords = inspect.Parameter.KEYWORD_ONLY
    assert parameters(mmtfl.alpha_from_gammas, keywords) == ["p", "k", "constants"]
    assert parameters(mmtfl.gammas_from_alpha, keywords) == ["p", "k", "ratio"]
    assert inspect.signature(mmtfl.alpha_from_gammas).parameters["constants"].default == "exact"
    assert inspect.signature(mmtfl.gammas_from_alpha).parameters["ratio"].default == 1.0
    assert parameters(mmtfl.path)[:3] == ["X", "y", "task"]


# -- docs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_public_name_has_a_docstring_with_an_example(module, name):
    text = inspect.getdoc(public(module, name)) or ""
    first = text.partition("\n")[0]
    assert first.endswith(".")
    examples = doctest.DocTestParser().get_examples(text)
    assert examples
    assert any(example.want for example in examples)  # and shows what comes out
    assert name in "".join(example.source for example in examples)


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_documented_parameters_are_those_of_the_signature(module, name):
    thing = public(module, name)
    assert "<" not in re.sub(r">>>.*|\.\.\. .*|<=?\s|<-", "", inspect.getdoc(thing))  # a placeholder left in
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\w+\n-+\n|\Z)", inspect.getdoc(thing), re.S | re.M)
    entries = re.findall(r"^\S.*", section[1], re.M) if section else []
    documented = [name for entry in entries for name in entry.partition(" :")[0].split(", ")]
    takes_none = inspect.isclass(thing) and issubclass(thing, Warning)
    assert sorted(documented) == sorted([] if takes_none or not callable(thing) else parameters(thing))


@pytest.mark.parametrize("Model", ESTIMATORS)
def test_learned_attributes_are_documented(Model):
    text = inspect.getdoc(Model)
    names = [
        *("coef_", "intercept_", "tasks_", "c_", "B_", "objective_", "violation_", "dual_gap_"),
        *("n_iter_", "history_", "n_features_in_"),
    ]
    if Model.__name__.endswith("CV"):
        names += ["best_p_", "best_k_", "alpha_", "alphas_", "cv_results_", "best_score_", "path_"]
        names.append("heldout_scores_")
    if "Classifier" in Model.__name__:
        names.append("classes_")
    attributes = text.partition("Attributes\n")[2]
    assert [name for name in names if not re.search(rf"\b{name}\b.* :", attributes)] == []


# -- importing -----------------------------------------------------------------------------------------------


def run(code):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_importing_loads_nothing_heavy_beyond_scikit_learn():
    heavy = {"matplotlib", "polars", "pandas", "pyarrow", "cvxpy", "dask", "distributed", "rich", "jinja2"}
    every = "from mmtfl import *"  # names are looked up late
    loaded = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    ours = "mmtfl.datasets, mmtfl.model_selection, mmtfl.plots"
    with_us = set(run(f"import sklearn.linear_model, {ours}; {every}; {loaded}"))
    without = set(run(f"import sklearn.linear_model, sklearn.model_selection; {loaded}"))
    assert {"mmtfl", "sklearn", "numpy"} <= with_us
    assert (with_us - without) & heavy == set()
    assert with_us & {"matplotlib", "polars", "cvxpy", "dask"} == set()


# -- files ---------------------------------------------------------------------------------------------------


def tracked_files():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_place_on_one_machine_or_a_package_index():
    places = "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "Us" + "ers"])
    index = "|".join(["index" + "-url", "find" + "-links", "trusted" + "-host", "/sim" + "ple/?\\s"])
    pattern = re.compile(rf"(?<![\w./-])/({places})/|{index}")
    files = tracked_files()
    assert len(files) > 50
    found = []
    for file in files:
        text = file.read_bytes().decode("utf-8", errors="ignore")
        found += [f"{file.relative_to(ROOT)}: {match.group()}" for match in pattern.finditer(text)]
    assert not found
    assert pattern.search("see /" + "ro" + "ot/data")  # the pattern can match


def test_versions_are_pinned_by_plain_lines():
    lines = (ROOT / "constraints.txt").read_text().split("\n")
    pins = [line for line in lines if line and not line.startswith("#")]
    assert len(pins) > 5
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line)] == []


PUBLIC = [getattr(mmtfl, name) for name in mmtfl.__all__]
ESTIMATORS = [value for value in PUBLIC if inspect.isclass(value) and issubclass(value, Declared)]


# -- the estimators ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Model", ESTIMATORS)
def test_every_default_is_a_valid_value(Model):
    assert set(Model._parameters) == set(inspect.signature(Model).parameters)
    defaults = {name: found.default for name, found in Model._parameters.items() if name != "estimator"}
    validate_parameter_constraints(Model._parameter_constraints, defaults, Model.__name__)
