r"""What comes from a file is shown with its control characters escaped: a terminal would obey them.

Names hold ESC, the CSI of one byte that some terminals know, a bell, and a sign that turns text around.
"""

import io
import json

import numpy as np
import pandas as pd
import pytest

from mmtfl.cli.main import main
from mmtfl.cli.output import print_csv

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


COMMANDS = [
    "cv table.parquet --task task --target y --drop class --pk 2,1 --folds 3 --alphas 5 -o m.mmtfl",
    "fit table.parquet --task task --target class --drop y --alpha 0.1 -o classes.mmtfl",
    "inspect m.mmtfl --verbose",
    "inspect classes.mmtfl",
    "inspect m.mmtfl --json",
    f"inspect m.mmtfl --task {EVIL}1",
    f"inspect m.mmtfl --task {EVIL}9",
    "add-task m.mmtfl new.parquet -o wider.mmtfl",
    "predict m.mmtfl new.parquet -o out.csv",
    "report m.mmtfl -o report.html",
    f"fit table.parquet --task task --target kind --drop {EVIL}9 -o new.mmtfl",
    f"fit {EVIL}.csv --task task --target y -o new.mmtfl",
]


@pytest.mark.filterwarnings("ignore")
def test_no_command_sends_a_control_character_to_the_terminal(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    codes = []
    for words in map(str.split, COMMANDS):
        codes.append(main(words))
        out, err = capsys.readouterr()
        told = (out + err).replace("\n", "")
        assert told.isprintable(), (words[:2], [c for c in told if not c.isprintable()][:3])
        if "--json" in words:
            names = [feature["name"] for feature in json.loads(out)["features"]]
            assert f"{EVIL}0" in names  # a reader of the JSON gets the name itself
    assert codes.count(0) >= 8 and 2 in codes


def test_predictions_go_to_a_pipe_as_they_are_and_to_a_terminal_escaped(monkeypatch):
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
