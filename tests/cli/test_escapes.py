r"""What comes from a file is shown with its control characters escaped: a terminal would obey them.

Names hold ESC, the CSI of one byte that some terminals know, a bell, and a sign that turns text around.
"""

import json

import numpy as np
import pytest

from mmtfl.cli.main import main

pd = pytest.importorskip("pandas")
EVIL = "\x1b[31m\x9b2J\a\u202e"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("escapes")
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(90, 3)), np.repeat([f"{EVIL}{t}" for t in range(3)], 30)
    frame = pd.DataFrame(X, columns=[f"{EVIL}{j}" for j in range(3)]).assign(task=task)
    frame["y"] = 2 * X[:, 0] + (task == task[0]) * X[:, 1] + 0.3 * rng.normal(size=90)
    frame["class"] = np.where(frame["y"] > 0, f"yes{EVIL}", f"no{EVIL}")
    frame["kind"] = rng.choice([f"red{EVIL}", f"blue{EVIL}"], 90)
    frame.to_parquet(folder / "table.parquet")
    frame.assign(task=f"new{EVIL}").head(2).to_parquet(folder / "new.parquet")
    return folder


def commands(folder):
    table, model = str(folder / "table.parquet"), str(folder / "model.mmtfl")
    new, classes = str(folder / "new.parquet"), str(folder / "classes.mmtfl")
    columns = ["--task", "task"]
    regress = [*columns, "--target", "y", "--drop", "class"]
    return [
        ["cv", table, *regress, "--pk", "2,1", "--folds", "3", "--alphas", "5", "-o", model, "--force"],
        [
            "fit",
            table,
            *columns,
            *["--target", "class", "--drop", "y", "--alpha", "0.1", "--force", "-o"],
            classes,
        ],
        ["inspect", model, "--verbose"],
        ["inspect", classes],
        ["inspect", model, "--json"],
        ["inspect", model, "--task", f"{EVIL}1"],
        ["inspect", model, "--task", f"{EVIL}9"],
        ["add-task", model, new, "-o", str(folder / "wider.mmtfl"), "--force"],
        ["predict", model, new, "-o", str(folder / "out.csv"), "--force"],
        ["report", model, "-o", str(folder / "report.html"), "--force"],
        ["fit", table, *columns, "--target", "kind", "--drop", f"{EVIL}9", "-o", model, "--force"],
        ["fit", str(folder / f"{EVIL}.csv"), *columns, "--target", "y", "-o", model, "--force"],
    ]


@pytest.mark.filterwarnings("ignore")
def test_no_command_sends_a_control_character_to_the_terminal(folder, capsys):
    codes = []
    for words in commands(folder):
        codes.append(main(words))
        out, err = capsys.readouterr()
        told = (out + err).replace("\n", "")
        assert told.isprintable(), (words[:2], [c for c in told if not c.isprintable()][:3])
        if "--json" in words:
            names = [feature["name"] for feature in json.loads(out)["features"]]
            assert f"{EVIL}0" in names  # a reader of the JSON gets the name itself
    assert codes.count(0) >= 8 and 2 in codes


def test_predictions_go_to_a_pipe_as_they_are_and_to_a_terminal_escaped(monkeypatch):
    import io

    from mmtfl.cli.output import print_csv

    class Screen(io.TextIOWrapper):
        terminal = False

        def isatty(self):
            return self.terminal

    frame = pd.DataFrame({"task": [f"a{EVIL}", "b"], "y": [1.0, 2.0]})
    for terminal in (False, True):
        screen = Screen(io.BytesIO(), encoding="utf-8")
        screen.terminal = terminal
        monkeypatch.setattr("sys.stdout", screen)
        print_csv(frame)
        text = screen.buffer.getvalue().decode()
        assert (EVIL in text) is not terminal and text.count("\n") == 3
        assert text.replace("\n", "").isprintable() is terminal
