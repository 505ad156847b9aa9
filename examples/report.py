"""Write the report of simulated patients of eight hospitals, and the picture of it that the README shows.

`python examples/report.py report.html` writes the page; with a second file, such as docs/images/report.png, a
picture of its first part is taken too, with Chromium and playwright.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_hospitals
from mmtfl.report.html import write_report

COLUMNS = ["age", "bmi", "pulse", "crp", "sodium", "dose", "ward", "smoker", "hospital"]


def picture(page: Path, image: Path, *, height: int = 1330) -> None:
    """The first part of a page as an image."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1100, "height": height})
        view.goto(page.resolve().as_uri())
        view.screenshot(path=image)
        browser.close()


def main(path: str = "report.html", image: str | None = None) -> None:
    """Fit, and write the report."""
    table = make_hospitals(random_state=0).frame
    model = MMTFLRegressorCV(standardize=True, task_column="hospital", categorical_features="from_dtype")
    X, stay = table[COLUMNS], table["stay"]
    title = "Days in hospital (simulated patients)"
    page = write_report(model.fit(X, stay), path, data=(X, stay, None), title=title)
    print(page)
    if image is not None:
        picture(page, Path(image))


if __name__ == "__main__":
    main(*sys.argv[1:])
