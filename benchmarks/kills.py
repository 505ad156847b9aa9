"""Kill commands at random moments, start them again, and compare the end with that of a run never killed.

    python benchmarks/kills.py [--kills 60] [--seed 0]

`cv`, `fit`, `report` and `reproduce` in turn, each killed three times (SIGKILL) at moments drawn from the
time that a whole run takes, then run to its end by the same command. Compared are the bits of all arrays of a
model, the report's text, and every score of `reproduce`. Nothing may be left beside the results: no temporary
file, and three seconds after a kill no child. docs/reliability.md has the figures of the last run.
"""

import argparse
import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from mmtfl.cli.main import main as mmtfl
from mmtfl.persistence.archive import _read

IN_A_ROW = 3
PROGRAMS = {"reproduce": "mmtfl_lab"}  # the others are commands of mmtfl
TABLE = ["table.csv", "--task", "task", "--target", "y", "--force"]
COMMANDS = {
    "cv": ["cv", *TABLE, "-o", "cv.mmtfl", "--checkpoint", "cv.checkpoint", "--pk", "2,1", "1,1"],
    "fit": [
        *("fit", *TABLE, "-o", "fit.mmtfl", "--checkpoint", "fit.checkpoint"),
        *("--p", "2", "--k", "1", "--alpha", "0.02"),
    ],
    "report": ["report", "model.mmtfl", "table.csv", "-o", "report.html", "--force"],
    "reproduce": [
        *("reproduce", "--datasets", "D1", "--methods", "stl", "mmtfl22", "--quick", "--table2"),
        *("--jobs", "2", "--out", "run"),
    ],
}


def start(name: str, folder: Path) -> subprocess.Popen:
    """The command in a session of its own, so that its children are known."""
    return subprocess.Popen(
        [sys.executable, "-m", PROGRAMS.get(name, "mmtfl"), *COMMANDS[name]],
        cwd=folder, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def prepare(folder: Path) -> None:
    """The table and the model that the commands read."""
    mmtfl(["datasets", "tasks", "-o", str(folder / "table.csv")])
    os.chdir(folder)
    words = ["--task", "task", "--target", "y", "--alpha", "0.05", "-q", "-o", "model.mmtfl"]
    assert mmtfl(["fit", "table.csv", *words]) == 0


def answer(name: str, folder: Path) -> list[bytes]:
    """What must be the same, as bytes."""
    if name == "report":
        return [(folder / "report.html").read_bytes()]
    if name == "reproduce":
        with open(folder / "run" / "results.csv", newline="") as file:
            rows = sorted(tuple(row[key] for key in row if key != "seconds") for row in csv.DictReader(file))
        return [repr(row).encode() for row in rows]
    return [array.tobytes() for _, array in sorted(_read(folder / f"{name}.mmtfl")[2].items())]


def alive(session: int) -> int:
    """How many processes of a session are there, where /proc tells."""
    count = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, own = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        count += int(own) == session and state != "Z"
    return count


def left_behind(folder: Path) -> list[str]:
    """Temporary files in a folder and below."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*.part")]


def kill(name: str, folder: Path, seconds: float) -> str | None:
    """Start a command, kill it after some seconds, and tell what of it is left after three more."""
    process = start(name, folder)
    try:
        process.wait(seconds)
        return None  # it was done before
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    for _ in range(30):
        if not alive(process.pid):
            return None
        time.sleep(0.1)
    return f"{alive(process.pid)} processes live three seconds after their parent"


def whole_run(name: str, folder: Path) -> tuple[int, float]:
    """Exit code and seconds of a run to the end."""
    began = time.monotonic()
    return start(name, folder).wait(), time.monotonic() - began


def main() -> int:
    """Kill, go on, compare; 1 if anything differs or is left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, failures, parts = np.random.default_rng(options.seed), [], 0
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "source"
        source.mkdir()
        prepare(source)
        expected, seconds = {}, {}
        for name in COMMANDS:
            code, seconds[name] = whole_run(name, source)
            assert code in (0, 3), (name, code)
            expected[name] = answer(name, source)
        print(
            "seconds of a whole run:", {name: round(value, 1) for name, value in seconds.items()}, flush=True
        )
        for n in range(options.kills // IN_A_ROW):
            name, folder = list(COMMANDS)[n % len(COMMANDS)], Path(place) / str(n)
            folder.mkdir()
            for file in ("table.csv", "model.mmtfl"):
                (folder / file).symlink_to(source / file)
            found = [kill(name, folder, rng.uniform(0.0, seconds[name])) for _ in range(IN_A_ROW)]
            parts += len(left_behind(folder))
            code, _ = whole_run(name, folder)
            found += [f"exit code {code}"] * (code not in (0, 3))
            found += ["other bits"] * (code in (0, 3) and answer(name, folder) != expected[name])
            found += [f"left: {left}" for left in left_behind(folder)]
            failures += [f"{name}, sequence {n}: {one}" for one in found if one]
            print(n, name, [one for one in found if one] or "same bits", flush=True)
        os.chdir("/")
    n_kills = IN_A_ROW * (options.kills // IN_A_ROW)
    print(f"{n_kills} kills, {len(failures)} failures; {parts} half-written files lay there after a kill")
    print(*failures, sep="\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
