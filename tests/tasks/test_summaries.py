"""Summaries of sites: fits and searches equal those on all rows, and no file gives a row away."""

import json
import struct

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl import MMTFLClassifier, MMTFLRegressor, MMTFLRegressorCV, SingleTaskRegressorCV, Tasks
from mmtfl.model_selection import TaskKFold
from mmtfl.tasks.summaries import SiteSummary

N_FOLDS, D = 3, 6
AGREED = {"least_rows": 10, "folds": N_FOLDS}


@pytest.fixture(scope="module")
def table():
    """Rows of four hospitals of different sizes, features on different scales, and folds of every row."""
    rng = np.random.default_rng(3)
    site = np.repeat(["Aker", "Bern", "Cork", "Delft"], [60, 45, 80, 50])
    X = rng.normal(size=(len(site), D)) * [1, 10, 0.1, 3, 1, 1] + [0, 100, 5, 0, 0, 0]
    X[:, 4] = rng.random(len(site)) < 0.5
    beta = np.array([1.0, 0.05, -8.0, 0.0, 0.7, 0.0])
    own = {name: beta + 0.3 * rng.normal(size=D) * (beta != 0) for name in np.unique(site)}
    y = np.array([x @ own[name] for x, name in zip(X, site, strict=True)])
    y = (y + rng.normal(size=len(site))) * np.where(site == "Cork", 20.0, 1.0)
    fold = np.empty(len(site), dtype=int)
    for name in np.unique(site):
        rows = np.flatnonzero(site == name)
        fold[rows] = rng.permutation(len(rows)) % N_FOLDS
    return X, y, site, fold


@pytest.fixture(scope="module")
def files(table, tmp_path_factory):
    """Three summaries: of two single hospitals, and of one site with two of them."""
    X, y, site, fold = table
    folder, paths = tmp_path_factory.mktemp("summaries"), []
    for names in (["Bern"], ["Aker"], ["Delft", "Cork"]):
        rows = np.flatnonzero(np.isin(site, names))
        order = rows[np.argsort(site[rows], kind="stable")]
        tasks = Tasks.from_rows(X[order], y[order], site[order])
        path = folder / f"{names[0]}.summary"
        SiteSummary.of_rows(tasks, fold[order], AGREED).save(path)
        paths.append(path)
    return paths


def splits(fold):
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(N_FOLDS)]


SCALES = [
    {},
    {"standardize": True, "scale_targets": True},
    {"standardize": True, "scale_targets": True, "task_weight": "equal", "fit_intercept": False},
]
MEMBERS = [
    {"p": 2, "k": 2},
    {"p": 1, "k": 1},
    {"p": 2, "k": 1, "solver": "alternating"},
    {"p": 2, "k": 2, "pooling": 0.9},
    {"p": np.inf, "k": 1},
    {"p": 1, "k": np.inf},
    {"p": 1.5, "k": "log"},
]


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_fits_to_summaries_equal_fits_to_all_rows(table, files, member, scales):
    X, y, site, _ = table
    model = MMTFLRegressor(alpha=0.02, tol=1e-12, max_iter=20_000, **member, **scales)
    here = MMTFLRegressor(**model.get_params()).fit(X, y, task=site)
    there = model.fit(Tasks.from_summaries(files))
    unit = np.abs(here.coef_).max(axis=0, initial=1e-3)
    assert np.any(here.coef_ != 0.0)
    assert_allclose(there.coef_ / unit, here.coef_ / unit, atol=1e-8)
    assert_allclose(there.intercept_, here.intercept_, rtol=1e-8, atol=1e-8)
    assert_allclose(there.objective_, here.objective_, rtol=1e-8)
    assert_array_equal(there.tasks_, here.tasks_)
    assert_array_equal(there.task_sizes_, [60, 45, 80, 50])
    assert there.mean_size_ == pytest.approx(here.mean_size_)


def test_one_model_per_task_is_chosen_alike(table, files):
    X, y, site, fold = table
    options = {"alphas": 8, "per_task": True, "tol": 1e-10}
    here = SingleTaskRegressorCV(cv=splits(fold), **options).fit(X, y, task=site)
    there = SingleTaskRegressorCV(**options).fit(Tasks.from_summaries(files))
    assert_allclose(there.alpha_, here.alpha_, rtol=1e-8)
    assert_allclose(there.coef_, here.coef_, rtol=1e-6, atol=1e-7)


def test_what_needs_rows_is_refused_with_a_reason(files):
    summarised = Tasks.from_summaries(files)
    with pytest.raises(ValueError, match="another loss needs the rows themselves"):
        MMTFLRegressor(loss="huber").fit(summarised)
    with pytest.raises(ValueError, match="MMTFLClassifier with another loss needs the rows"):
        MMTFLClassifier().fit(summarised)
    with pytest.raises(ValueError, match="made with 3 folds"):
        MMTFLRegressorCV(cv=TaskKFold(4)).fit(summarised)
    with pytest.raises(ValueError, match="with nothing else"):
        MMTFLRegressor().fit(summarised, np.zeros(4))


# -- what a file gives away ----------------------------------------------------------------------------------


def test_no_value_of_a_row_is_in_a_file(table, files):
    X, y, _, _ = table
    content = b"".join(path.read_bytes() for path in files)
    for value in np.concatenate([X[:, [0, 1, 2, 3, 5]].ravel(), y]):
        assert struct.pack("<d", value) not in content
        assert repr(float(value)).encode() not in content


def solved_target(X, summary):
    """The target of every row, by who knows all features and reads the summary."""
    centred = X - X.mean(axis=0)
    cross = summary.scatter[0, 0, :-1, -1]
    return summary.mean[0, 0, -1] + np.linalg.lstsq(centred.T, cross)[0]


def one_fold(n_rows, d, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n_rows, d)), rng.normal(size=n_rows)
    return Tasks.from_rows(X, y, ["Aker"] * n_rows)


def test_who_knows_the_features_solves_for_the_target_of_few_rows_only(monkeypatch):
    d = 8
    at_limit = one_fold(d + 3, d)
    summary = SiteSummary.of_rows(at_limit, np.zeros(d + 3, dtype=int), AGREED)
    error = np.abs(solved_target(at_limit.X, summary) - at_limit.y)
    assert error.min() > 1e-3, "a row was found"
    below = one_fold(d + 1, d)
    with pytest.raises(ValueError, match="could solve for that one"):
        SiteSummary.of_rows(below, np.zeros(d + 1, dtype=int), AGREED)
    # and rightly so: without the rule the attack succeeds
    monkeypatch.setattr("mmtfl.tasks.summaries.check_scatter", lambda *_: None)
    leaked = SiteSummary.of_rows(below, np.zeros(d + 1, dtype=int), AGREED)
    assert_allclose(solved_target(below.X, leaked), below.y, atol=1e-9)


def test_the_centre_refuses_two_different_summaries_of_a_site(table, files, tmp_path):
    X, y, site, fold = table
    own = np.flatnonzero(site == "Bern")
    again = tmp_path / "again.summary"
    tasks = Tasks.from_rows(X[own[1:]], y[own[1:]], site[own[1:]])
    SiteSummary.of_rows(tasks, fold[own[1:]], AGREED).save(again)
    with pytest.raises(ValueError, match="different summaries of task 'Bern'"):
        Tasks.from_summaries([*files, again])
    assert Tasks.from_summaries([*files, files[0]]).n_samples == len(y)  # the same file twice counts once
    other = tmp_path / "other.summary"
    SiteSummary.of_rows(tasks, fold[own[1:]], {**AGREED, "least_rows": 5}).save(other)
    with pytest.raises(ValueError, match="another agreement"):
        Tasks.from_summaries([*files[1:], other])


def test_a_spoilt_file_is_refused(files, tmp_path):
    whole = files[0].read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + length])
    spoilt = tmp_path / "spoilt.summary"
    header["scatter"]["shape"][0] = 10**12
    forged, changed = json.dumps(header).encode(), bytearray(whole)
    changed[-3] ^= 1
    bomb = struct.pack("<Q", len(forged)) + forged
    for content in (b"", whole[:100], whole[:-8], bytes(changed), bomb, b"x" * 99):
        spoilt.write_bytes(content)
        with pytest.raises(ValueError, match="is not a sound summary of a site"):
            Tasks.from_summaries([spoilt])
    with pytest.raises(FileExistsError):
        SiteSummary.load(files[0]).save(files[1])


def test_every_field_of_a_file_is_explained(files):
    whole = files[0].read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + length])
    about = header.pop("__metadata__")
    fields = [*header, *(name for name in about if name != "format" and ": what it is" not in name)]
    assert all(f"{name}: what it is" in about for name in fields)
