"""What a notebook shows: scikit-learn's diagram, then what the tasks share, with inert names."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import estimator_html_repr

import mmtfl
from mmtfl.datasets import make_tasks
from report import reports

HOSTILE = reports.HOSTILE[:6]


class Page(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], []
        self.feed(text)
        self.text = "".join(self.words)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(150, 6)), columns=HOSTILE)
    task = np.repeat(["a<b", "b", "c"], 50)
    # feature 0 for all tasks, 1 for two of them, 2 for one, the others for none
    y = 3 * X.iloc[:, 0] + 2 * X.iloc[:, 1] * (task != "c") + 2 * X.iloc[:, 2] * (task == "c")
    return mmtfl.MMTFLRegressor(p=1, k=1, alpha=0.02).fit(X, y, task=task)


def added(model):
    """What comes after scikit-learn's own part."""
    return model._repr_html_()[len(estimator_html_repr(model)) :]


def test_counts_and_largest_features_are_told_after_what_scikit_learn_shows(model):
    own, page = estimator_html_repr(model), Page(added(model))
    assert Page(model._repr_html_()).tags[: len(Page(own).tags)] == Page(own).tags
    assert "3 tasks, 6 features, 3 used: 1 by all 3 tasks, 1 by some, 1 by one." in page.text
    for who in ("all 3 tasks", "2 of 3 tasks", "one task (c)"):
        assert who in page.text
    frame = model.summary()
    first = frame.iloc[0]
    assert f"{first['min_coef']:.4g} to {first['max_coef']:.4g}{first['mean_coef_per_sd']:.4g}" in page.text
    assert page.tags.count("tr") == 1 + (frame["n_tasks"] > 0).sum() == 4
    assert f"{frame['c'][0]:.4g}" in page.text
    assert page.text.index(HOSTILE[0]) < page.text.index(HOSTILE[1]) < page.text.index(HOSTILE[2])


def test_names_are_text_and_long_ones_are_cut_with_the_whole_in_a_tooltip(model):
    page = Page(added(model))
    assert not {"script", "img"} & set(page.tags)
    assert not {name for name, _ in page.attributes} & {"onerror", "src"}
    assert HOSTILE[0] in page.text
    X = pd.DataFrame({"n" * 300 + '"<b>': np.arange(10.0)})
    page = Page(added(mmtfl.MMTFLRegressor(alpha=0.01).fit(X, X.iloc[:, 0])))
    assert "n" * 60 + "…" in page.text and "n" * 61 not in page.text
    assert ("title", X.columns[0]) in page.attributes
    assert "1 task, 1 feature, 1 used." in page.text


def test_searches_and_models_without_any_feature():
    data = make_tasks(n_tasks=3, n_samples=20, n_features=5, n_informative=2, random_state=0)
    search = mmtfl.TwoStrengthCV(mmtfl.DirtyRegressor(), strengths=2, cv=2)
    assert added(search) == ""
    assert "3 tasks, 5 features" in search.fit(data.X, data.y, task=data.task)._repr_html_()
    nothing = mmtfl.MMTFLRegressor(alpha=1e6).fit(data.X, data.y, task=data.task)
    assert Page(added(nothing)).text == "3 tasks, 5 features, 0 used."
