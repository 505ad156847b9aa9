"""The page as text: what it holds, what it cannot let in, and how it is written."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from mmtfl import (
    DirtyRegressor,
    MMTFLClassifier,
    MMTFLRegressor,
    MMTFLRegressorCV,
    TwoStrengthCV,
)
from mmtfl.datasets import make_tasks
from mmtfl.plots import SharingMapDisplay
from mmtfl.report.html import render_report, write_report
from mmtfl.report.sentences import number
from mmtfl.tables.recipe import TableRecipe
from report.reports import HOSTILE, hostile_model, hostile_problem, large_model

VOID = {"meta", "input", "br", "link", "img"}


class Tree(HTMLParser):
    """Elements with attributes and text, and whether every one that was opened was closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.stack, self.elements, self.unbalanced = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "attrs": dict(attrs), "text": ""}
        self.elements.append(element)
        if tag not in VOID:
            self.stack.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append({"tag": tag, "attrs": dict(attrs), "text": ""})

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop()["tag"] != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        for element in self.stack:
            element["text"] += data

    def all(self, tag, **attrs):
        return [
            element
            for element in self.elements
            if element["tag"] == tag
            and all(element["attrs"].get(k.rstrip("_")) == v for k, v in attrs.items())
        ]

    def one(self, tag, **attrs):
        (element,) = self.all(tag, **attrs)
        return element


@pytest.fixture(scope="module")
def hostile():
    X, y, task = hostile_problem()
    return render_report(hostile_model(), data=(X, y, task), title=HOSTILE[0])


@pytest.fixture(scope="module")
def tree(hostile):
    return Tree(hostile)


# -- what it lets in -----------------------------------------------------------------------------------------


def test_names_that_mean_harm_are_text_isolated_from_the_text_around(hostile, tree):
    assert not tree.unbalanced and not tree.stack
    assert [element["attrs"]["id"] for element in tree.all("section")] == [
        "predictions",
        "features",
        "map",
        "made",
    ]
    ids = [element["attrs"]["id"] for element in tree.elements if "id" in element["attrs"]]
    assert len(ids) == len(set(ids))
    assert len(tree.all("script")) == 2 and not tree.all("img")
    assert not [name for element in tree.elements for name in element["attrs"] if name.startswith("on")]
    assert "49" not in tree.one("h1")["text"]
    for found in (tree.all("button", class_="name"), tree.all("bdi")):
        assert set(HOSTILE) <= {element["text"] for element in found}
    assert hostile.count("{{7*7}}") >= 1  # the name itself, not what a template would make of it


def test_the_data_cannot_leave_its_element(hostile, tree):
    block = tree.one("script", type="application/json")["text"]
    assert json.loads(block)["features"]["name"]
    assert set(json.loads(block)["features"]["name"]) == set(HOSTILE)
    assert not re.search("[<>&\u2028\u2029]", block)


def test_the_policy_allows_this_script_and_this_style_and_nothing_else(tree):
    policy = tree.one("meta", **{"http-equiv": "Content-Security-Policy"})["attrs"]["content"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    script = next(e["text"] for e in tree.all("script") if "type" not in e["attrs"])
    for rule, text in (("script-src", script), ("style-src", tree.one("style")["text"])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert "unsafe" not in policy
    assert "http" not in policy
    # the rule on styles would silently drop these
    assert not [e for e in tree.elements if "style" in e["attrs"]]


# -- what it says --------------------------------------------------------------------------------------------


def test_pictures_have_words(tree):
    data = make_tasks(3, 40, 6, n_informative=2, noise=0.5, random_state=0)
    model = MMTFLRegressorCV(pk=((2, 2), (2, 1)), alphas=6, cv=3).fit(data.X, data.y, task=data.task)
    page = Tree(render_report(model))
    images = [picture["attrs"] for picture in page.all("img")]
    assert images and all(len(image["alt"]) > 20 for image in images)
    assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in images)
    assert all(picture["attrs"].get("aria-hidden") == "true" for picture in page.all("svg"))
    assert render_report(model) == render_report(model)


def test_the_matrix_comes_back_from_the_page():
    model = hostile_model()
    data = json.loads(Tree(render_report(model)).one("script", type="application/json")["text"])
    table = data["map"]
    steps = np.frombuffer(base64.b64decode(table["steps"]), dtype="<i2")
    A = steps.reshape(len(table["features"]), -1) / 32767 * np.array(table["largest"])[:, None]
    coef = A / np.array(data["columnScale"])[:, None] * np.array(data["targetScale"])[table["tasks"]]
    names = [data["features"]["name"][i] for i in table["features"]]
    columns = [model.feature_names_in_.tolist().index(name) for name in names]
    expected = model.coef_[table["tasks"]][:, columns].T
    assert 0 < len(columns) < len(HOSTILE)
    np.testing.assert_allclose(coef, expected, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_array_equal(coef != 0, expected != 0)


def test_the_map_has_the_order_of_the_sharing_map_also_where_signs_differ():
    model = large_model(60, 9)
    data = json.loads(Tree(render_report(model)).one("script", type="application/json")["text"])
    drawn = SharingMapDisplay.from_estimator(model)
    assert (model.coef_ < 0).any() and (model.coef_ > 0).any()
    assert [data["tasks"][t] for t in data["map"]["tasks"]] == [str(label) for label in drawn.tasks]
    names = [data["features"]["name"][j] for j in data["map"]["features"]]
    assert names == drawn.features.tolist()


def test_a_page_of_very_many_features_says_what_it_leaves_out():
    text = render_report(large_model(n_features=2500, n_tasks=4))
    assert "500 smaller or unused ones are left out" in text
    assert len(text) < 3e6
    assert len([e for e in Tree(text).all("tr") if "data-kind" in e["attrs"]]) == 2000


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (MMTFLClassifier(alpha=0.02), "Classes"),
        (MMTFLRegressor(alpha=0.01, max_iter=1, tol=1e-14, solver="alternating"), "short of its tol"),
        (MMTFLRegressor(alpha=0.1), "<h3>How was alpha chosen?"),
        (MMTFLRegressorCV(pk=((2, 2), (2, 1)), alphas=3, cv=2), "<h3>How were alpha and (p, k) chosen?"),
        (TwoStrengthCV(DirtyRegressor(), 2, cv=2), "<h3>How were the strengths chosen?"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_models_have_a_page_and_their_choice_is_named(model, told):
    classes = isinstance(model, MMTFLClassifier)
    data = make_tasks(3, 40, 6, n_informative=2, noise=0.5, random_state=0, classification=classes)
    text = render_report(model.fit(data.X, data.y, task=data.task))
    assert not Tree(text).unbalanced and told in text


def test_the_title_names_target_and_task_column():
    columns = [("stay",), "hospital"], [tuple("abcdefg"), None], [("stay",), None]
    titles = []
    for targets, task in columns:
        model = hostile_model()
        model.recipe_ = TableRecipe(targets, task)
        titles.append(Tree(render_report(model)).one("h1")["text"])
    assert titles == ["stay, by hospital", "a, b, c and 4 more", "stay"]
    model.recipe_ = TableRecipe((HOSTILE[0],), HOSTILE[1])
    assert Tree(render_report(model)).one("title")["text"] == f"{HOSTILE[0]}, by {HOSTILE[1]}"
    assert Tree(render_report(model, title=HOSTILE[2])).one("h1")["text"] == HOSTILE[2]
    assert Tree(render_report(hostile_model())).one("h1")["text"] == "Regression of 4 tasks on 12 features"


def test_tasks_are_called_by_the_name_of_their_column():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 2)), columns=["age", "dose"])
    X["city"] = np.repeat(list("abcd"), 30)
    y = X["age"] + rng.normal(size=120)
    model = MMTFLRegressor(alpha=0.1, task_column="city").fit(X, y)
    page = render_report(model, data=(X, y, None))
    assert "City by city" in page and "used by all cities" in page and "within a city are explained" in page
    read = ("p", "h2", "h3", "th", "td", "li", "button")
    words = [e["text"] for e in Tree(page).elements if e["tag"] in read]
    assert not any(re.search(r"\btasks?\b", text) for text in words)


# -- words ---------------------------------------------------------------------------------------------------


def test_a_model_without_features_says_so_in_place_of_a_map():
    X, y, task = hostile_problem()
    text = render_report(MMTFLRegressor(alpha=1e6).fit(X, y, task=task), data=(X, y, task))
    assert "Of 12 features, 0 are used." in text
    assert "so there is nothing to draw" in text
    assert '<div class="needs-script" hidden>' in text
    assert "so there is nothing to draw" not in render_report(hostile_model())


def test_numbers_are_short():
    values = [0.0, 0.12345, -1234.6, 1e-8, 2.5e7, None, float("nan"), float("inf"), 12000]
    assert list(map(number, values)) == ["0", "0.123", "−1235", "1e−8", "2.5e7", "–", "–", "∞", "12 000"]


# -- the file ------------------------------------------------------------------------------------------------


def test_names_that_are_no_text_at_all_do_not_stop_the_report(tmp_path):
    model = hostile_model()
    model.feature_names_in_ = np.array(["\ud800 half a letter", "\x00 null", *HOSTILE[2:]], dtype=object)
    assert write_report(model, tmp_path / "odd.html").stat().st_size > 10_000
