"""The report as people use it: in a browser, with a pointer, a keyboard, a phone and the lights out."""

import shutil

import pytest

from mmtfl import MMTFLRegressor, MMTFLRegressorCV, RobustRegressor, TwoStrengthCV
from mmtfl.datasets import make_tasks
from mmtfl.report.html import write_report
from report.reports import HOSTILE, hostile_model, hostile_problem, large_model

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
]
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as tools:
        running = tools.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One page of each kind: hostile names, a search, two strengths, a large model."""
    folder = tmp_path_factory.mktemp("reports")
    data = make_tasks(4, 40, 10, n_informative=3, noise=1.0, random_state=0)
    search = MMTFLRegressorCV(pk=((2, 2), (1, 1)), alphas=8, cv=3, standardize=True)
    search.fit(data.X, data.y, task=data.task)
    two = TwoStrengthCV(RobustRegressor(), strengths=3, cv=3).fit(data.X, data.y, task=data.task)
    rows = data.X, data.y, data.task
    empty = MMTFLRegressor(alpha=1e6).fit(data.X, data.y, task=data.task)
    pages = {
        "hostile": (hostile_model(), {"data": hostile_problem(), "title": HOSTILE[0]}),
        "search": (search, {"data": rows}),
        "two": (two, {}),
        "large": (large_model(), {}),
        "empty": (empty, {}),
    }
    return {
        name: write_report(model, folder / f"{name}.html", **given) for name, (model, given) in pages.items()
    }


class Visit:
    """A page that is watched: requests, console, dialogs and errors are kept."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.requests, self.troubles = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.troubles.append(dialog.message), dialog.dismiss()))
        self.page.add_init_script(
            "window.violations = []; document.addEventListener('securitypolicyviolation', "
            "event => violations.push(event.violatedDirective + ' ' + event.blockedURI));"
        )
        self.page.goto(path.as_uri())

    def names(self, table):
        return self.page.locator(f"#{table} tbody th").all_inner_texts()

    def column(self, table, i):
        return self.page.locator(f"#{table} tbody tr > :nth-child({i})").all_inner_texts()


@pytest.fixture
def visit(browser, files):
    open_visits = []

    def go(name, **options):
        open_visits.append(Visit(browser, files[name], **options))
        return open_visits[-1]

    yield go
    for each in open_visits:
        each.context.close()


def as_number(text):
    return float(text.replace("−", "-").replace(" ", ""))


# -- quiet and inert -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hostile", "search", "two", "large", "empty"])
def test_a_page_asks_nothing_and_complains_of_nothing(visit, files, name):
    seen = visit(name)
    seen.page.locator("#features-table .sort").first.click()
    seen.page.locator("#tasks tbody .name").first.click()
    seen.page.keyboard.press("Escape")
    assert seen.requests == [files[name].as_uri()]
    assert seen.troubles == []
    assert seen.page.evaluate("violations") == []


def test_hostile_names_are_shown_and_do_nothing(visit):
    seen = visit("hostile")
    assert set(seen.names("features-table")) >= {name for name in HOSTILE if "\u2028" not in name}
    for i in range(len(HOSTILE)):
        name = seen.page.locator("#features-table tbody .name").nth(i)
        name.click()
        assert seen.page.locator("#card-title").inner_text() == name.text_content()  # whole, however long
        seen.page.keyboard.press("Escape")
    seen.page.locator("#map-frame").focus()
    for _ in range(8):
        seen.page.keyboard.press("ArrowDown")
    assert seen.page.evaluate("window.pwned") is None
    assert seen.troubles == [] and len(seen.requests) == 1
    assert seen.page.locator("img:not([src^='data:image/svg+xml;base64,'])").count() == 0


# -- tables --------------------------------------------------------------------------------------------------


def test_rows_arrive_as_one_scrolls_and_search_keeps_those_that_fit(visit):
    seen = visit("large")
    before = len(seen.names("features-table"))
    assert 0 < before < 2000
    seen.page.locator("#features .scroll").evaluate("e => { e.scrollTop = e.scrollHeight; }")
    more = "before => document.querySelectorAll('#features-table tbody tr').length > before"
    seen.page.wait_for_function(more, arg=before)
    seen.page.get_by_label("Search features").fill("number 012")
    assert sorted(seen.names("features-table")) == [f"feature number 012{i}" for i in range(10)]
    assert seen.page.locator("output[data-count=features-table]").inner_text() == "10 of 2000"
    seen.page.get_by_label("Search features").fill("no such feature")
    assert seen.names("features-table") == []


def test_columns_are_sorted_both_ways_and_say_so_and_kinds_can_be_hidden(visit):
    seen = visit("search")
    header = seen.page.locator("#features-table th").nth(2)
    button = header.get_by_role("button")
    for press, order in ((button.click, "descending"), (lambda: button.press("Enter"), "ascending")):
        press()
        assert header.get_attribute("aria-sort") == order
        sizes = [as_number(text) for text in seen.column("features-table", 3)]
        assert sizes == sorted(sizes, reverse=order == "descending") and len(set(sizes)) > 1
    seen.page.locator("#features-table th").nth(0).get_by_role("button").click()
    assert header.get_attribute("aria-sort") is None
    assert seen.names("features-table") == [f"x{j}" for j in range(10)]
    seen.page.locator(".chip[data-kind=none]").click()
    assert 0 < len(seen.names("features-table")) < 10 and "no task" not in seen.column("features-table", 2)


# -- map and cards -------------------------------------------------------------------------------------------


def test_the_map_has_colours_and_is_read_by_pointing_and_by_keys(visit):
    """Arrow keys from the corner: the first feature of the map in its first task."""
    model, seen = hostile_model(), visit("hostile")
    page, press, readout = seen.page, seen.page.keyboard.press, seen.page.locator("#map-readout")
    page.locator("#map-frame").focus()
    press("ArrowRight")
    data = page.evaluate("JSON.parse(document.getElementById('report-data').textContent)")
    t, name = data["map"]["tasks"][0], data["features"]["name"][data["map"]["features"][0]]
    coefficient = model.coef_[t][model.feature_names_in_.tolist().index(name)]
    text = readout.inner_text()
    assert f"{name} in {model.tasks_[t]}" in text
    per_unit = text.rpartition(" per unit")[0].rpartition(", ")[2]
    assert as_number(per_unit) == pytest.approx(coefficient, rel=0.01)
    page.locator("#map-frame").scroll_into_view_if_needed()
    box, words = page.locator("#map-canvas").bounding_box(), [text]
    for left in range(50, 500, 15):  # along a row of cells
        page.mouse.move(box["x"] + left, box["y"] + 0.7 * box["height"])
        words.append(readout.inner_text())
    assert len(set(words)) == 1 + 4 and all("The feature is" in word for word in words)
    colours = page.evaluate(
        """() => {
        const canvas = document.getElementById("map-canvas");
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        const seen = new Set();
        for (let i = 0; i < pixels.length; i += 4) seen.add(pixels.slice(i, i + 3).join());
        return seen.size; }"""
    )
    assert colours > 10


def test_the_map_is_magnified_and_opens_a_card_by_keys(visit):
    page, press = (seen := visit("large")).page, seen.page.keyboard.press
    frame = page.locator("#map-frame")
    frame.focus()
    for key in ("ArrowDown", "End", *"++++++"):
        press(key)
    assert frame.evaluate("e => e.scrollHeight > 3 * e.clientHeight")
    press("Home")
    assert frame.evaluate("e => e.scrollTop") < 100
    press("Enter")
    assert page.locator("#card-title").inner_text() in page.locator("#map-readout").inner_text()
    press("Escape")
    assert not page.locator("#card").is_visible()
    assert page.evaluate("document.activeElement.id") == "map-frame"


def test_cards_have_the_forest_and_all_tasks_of_a_feature_and_all_features_of_a_task(visit):
    seen = visit("search")
    name, card = seen.page.locator("#effects-table tbody .name").first, seen.page.locator("#card")
    name.focus()
    seen.page.keyboard.press("Enter")
    assert seen.page.locator("#card-title").inner_text() == name.inner_text()
    assert card.locator(".forest tbody tr").count() == 4 + 1  # and the average
    assert card.locator(".forest rect.effect").count() == 4
    assert card.locator(".forest path.average").count() == 1
    assert "Spread between tasks" in card.inner_text()
    seen.page.locator("#card-close").click()
    seen.page.locator("#features-table tbody .name").first.click()
    assert card.locator("details .bars tbody tr").count() == 4
    seen.page.locator("#card-close").click()
    used = int(seen.page.locator("#tasks tbody tr").first.locator("td").nth(-2).inner_text())
    seen.page.locator("#tasks tbody .name").first.click()
    assert card.locator(".bars tbody tr").count() == used > 0
    assert seen.troubles == []


# -- keyboard, phone, colours, no script ---------------------------------------------------------------------


def test_the_keyboard_reaches_everything_and_the_focus_is_seen(visit):
    seen = visit("search")
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.className") == "skip"
    assert seen.page.locator(".skip").bounding_box()["x"] >= 0
    reached = set()
    for _ in range(80):
        seen.page.keyboard.press("Tab")
        style = seen.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        here = seen.page.evaluate(
            "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
        )
        if here != "BODY":
            assert style == "solid", here
        reached.add(here)
    assert {"theme", "sort", "name", "chip", "map-frame", "zoom-in"} <= reached


@pytest.mark.parametrize("name", ["hostile", "search", "two", "large"])
def test_a_phone_does_not_scroll_sideways(visit, name):
    seen = visit(name, viewport={"width": 375, "height": 720}, has_touch=True, is_mobile=True)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 375
    if name == "search":
        assert seen.page.locator("#effects .scroll").evaluate("e => e.scrollWidth <= e.clientWidth")
    seen.page.locator("#features-table tbody .name").first.tap()
    box = seen.page.locator("#card").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 375
    assert seen.page.locator("#card").evaluate("e => e.scrollWidth <= e.clientWidth")


CONTRAST = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  let n = 0;
  for (const element of document.querySelectorAll("main *, header *, nav *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || element.closest("svg, noscript, .hidden")) continue;
    n += 1;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return [n, [...new Set(low)]];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(visit, scheme):
    seen = visit("search", color_scheme=scheme)
    n, low = seen.page.evaluate(CONTRAST)
    assert n > 60
    assert low == []


def test_the_theme_is_switched_and_remembered_nowhere(visit):
    seen = visit("search", color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = seen.page.evaluate(ground)
    grounds = []
    for said in ("dark", "light", "system"):
        seen.page.locator("#theme").click()
        grounds.append(seen.page.evaluate(ground))
        assert seen.page.locator("#theme").inner_text() == f"Theme: {said}"
    assert grounds[1] == grounds[2] == light != grounds[0]
    assert seen.context.cookies() == []


def test_tables_are_there_without_a_script(visit):
    seen = visit("large", java_script_enabled=False)
    assert len(seen.names("features-table")) == 2000
    assert len(seen.names("tasks")) == 50
    assert not seen.page.locator("#theme").is_visible()
    assert "need JavaScript" in seen.page.locator("#map").inner_text()
