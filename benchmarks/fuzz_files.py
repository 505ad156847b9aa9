"""Mutated files by the seed: model files, checkpoints and tables are read, or refused in one clear line.

    python benchmarks/fuzz_files.py [--cases 2000] [--first 0]
    python benchmarks/fuzz_files.py --replay SEED

The corpus is made here: small models, a checkpoint, and tables in every format. A seed picks a file and
spoils it: bytes, cuts, repeats, and for archives also values of the JSON and the arrays under a right
checksum. A reader may refuse it with its own kind of error, in one line. Any other exception of a reader, and
any case above the limits of time and memory, is a failure, printed with the seed that replays it.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import save

import mmtfl
from mmtfl.cli.inspect import inspect
from mmtfl.persistence.archive import VERSION, ModelFileError, _digest, _read
from mmtfl.solvers.checkpoint import Checkpoint, FitCheckpoint
from mmtfl.tables.reading import TableError, read_table

SLOW, LARGE = 5.0, 200e6  # seconds of processor time, bytes
JUNK = [None, True, -1, 0, 1.5, 2**70, "x", "\x1b[31m", [], {}, {"array": 0}, {"float": "nan"}, [[1]], "nan"]
BYTES = [b"\x00", b"\xff", b",", b"\n", b"\r", b'"', b"\t", b"1e999", b"\xef\xbb\xbf", b"NaN", b"=", b";"]


def corpus(folder: Path) -> list[Path]:
    """The sound files."""
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(60, 4)), np.repeat(["a", "b", "c"], 20)
    y = X[:, 0] + rng.normal(size=60)
    frame = pd.DataFrame(X, columns=list("wxyz")).assign(task=task, target=y)
    models = {
        "family": mmtfl.MMTFLRegressor(alpha=0.1, scale_targets=True),
        "search": mmtfl.MMTFLRegressorCV(pk=((2, 1), (1, 1)), alphas=3, cv=2),
        "pairs": mmtfl.TwoStrengthCV(mmtfl.DirtyRegressor(), strengths=2, cv=2),
        "alone": mmtfl.SingleTaskRegressorCV(alphas=3, cv=2, per_task=True),
    }
    for name, model in models.items():
        model.fit(frame[list("wxyz")], y, task=task).save(folder / f"{name}.mmtfl")
    mmtfl.MMTFLClassifier(alpha=0.02).fit(X, y > 0, task=task).save(folder / "classes.mmtfl")
    checkpoint = FitCheckpoint(Checkpoint(folder / "fit.checkpoint", "fuzz"))
    checkpoint.keep_passes({"A": X[:3], "weights": X[0], "history": y[:3]})
    frame.to_csv(folder / "table.csv", index=False)
    frame.to_csv(folder / "table.tsv", index=False, sep="\t")
    frame.to_csv(folder / "table.csv.gz", index=False)
    frame.to_parquet(folder / "table.parquet")
    frame.to_feather(folder / "table.feather")
    return sorted(path for path in folder.iterdir())


def spoil_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes changed, cut out, repeated or put in."""
    spoilt = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        at, n = int(rng.integers(len(spoilt) + 1)), int(rng.integers(1, 40))
        kind = rng.integers(4)
        if kind == 0 and at < len(spoilt):
            spoilt[at] ^= int(rng.integers(1, 256))
        elif kind == 1:
            del spoilt[at : at + n]
        elif kind == 2:
            spoilt[at:at] = spoilt[at : at + n] * int(rng.integers(1, 5))
        else:
            spoilt[at:at] = BYTES[int(rng.integers(len(BYTES)))]
    return bytes(spoilt)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container and key in a tree."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [pair for key, entry in items for pair in [(value, key), *places(entry)]]


def spoil_archive(source: Path, path: Path, rng: np.random.Generator) -> None:
    """Values of the JSON and of the arrays changed, under a right checksum."""
    _, text, arrays = _read(source)
    content = json.loads(text)
    every = places(content)
    for _ in range(int(rng.integers(1, 3))):
        holder, key = every[int(rng.integers(len(every)))]
        if rng.random() < 0.3 and isinstance(holder, dict):
            holder.pop(key, None)
        elif key in holder if isinstance(holder, dict) else key < len(holder):
            holder[key] = json.loads(json.dumps(JUNK[int(rng.integers(len(JUNK)))]))
    if rng.random() < 0.5 and arrays:
        i = list(arrays)[int(rng.integers(len(arrays)))]
        wild = [arrays[i][..., :-1] if arrays[i].ndim else arrays[i], arrays[i][None], arrays[i].astype("i8")]
        if arrays[i].dtype.kind == "f":
            wild += [arrays[i] * np.nan, arrays[i] + np.inf, arrays[i] * 1e300, -arrays[i]]
        arrays[i] = np.array(wild[int(rng.integers(len(wild)))])
    text = json.dumps(content)
    path.write_bytes(save(arrays, {"mmtfl": f"{VERSION} {_digest(text, arrays)} {text}"}))


def use(path: Path) -> None:
    """Read a file in every way it is made for."""
    if path.suffix == ".checkpoint":
        try:
            FitCheckpoint(Checkpoint(path, "fuzz")).passes()
        except ValueError as refused:
            raise ModelFileError(str(refused)) from None
        return
    if path.suffix != ".mmtfl":
        read_table(path)
        return
    model = mmtfl.load(path)
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
        # under a right checksum values may be nonsense, which any method may refuse
        model.predict(np.zeros((2, model.n_features_in_)), task=model.tasks_[:1].repeat(2))
        inspect(path)


def run(seed: int, files: list[Path], folder: Path) -> tuple[str, bool, str | None]:
    """Which file a seed is about, whether it was read, and what went wrong with it."""
    rng = np.random.default_rng([23, seed])
    source = files[int(rng.integers(len(files)))]
    path = folder / f"spoilt{''.join(source.suffixes)}"
    archive = source.suffix in (".mmtfl", ".checkpoint")
    if archive and rng.random() < 0.8:
        spoil_archive(source, path, rng)
    else:
        path.write_bytes(spoil_bytes(source.read_bytes(), rng))
    began, wrong = time.process_time(), None
    tracemalloc.start()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            use(path)
        is_read = True
    except TableError:
        is_read = False
    except ModelFileError as refused:
        is_read = False
        if "\n" in str(refused):
            wrong = f"more than one line: {str(refused)[:80]!r}"
    except Exception as error:  # what is looked for
        is_read = True
        wrong = (
            f"{type(error).__name__}: {error}"[:160]
            + " at "
            + traceback.format_exc().splitlines()[-3].strip()
        )
    seconds, most = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if seconds > SLOW or most > LARGE:
        wrong = wrong or f"{seconds:.1f} s, {most / 1e6:.0f} MB"
    return source.name, is_read, wrong


def main() -> int:
    """Run the cases, print the failures; 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--replay", type=int)
    options = parser.parse_args()
    alone = options.replay is not None
    seeds = [options.replay] if alone else range(options.first, options.first + options.cases)
    failures = n_read = 0
    with tempfile.TemporaryDirectory() as place:
        sound, spoilt = Path(place) / "sound", Path(place) / "spoilt"
        sound.mkdir(), spoilt.mkdir()
        files = corpus(sound)
        for seed in seeds:
            name, is_read, wrong = run(seed, files, spoilt)
            n_read += is_read
            if wrong is not None:
                failures += 1
                print(f"seed {seed}, {name}: {wrong}", flush=True)
    print(f"{len(seeds)} spoilt files, {n_read} read and the others refused, {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
