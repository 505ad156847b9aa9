"""Tables from disk: every format gives the same values, and every bad file one clear line."""

import gzip

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from mmtfl.tables.reading import TableError, TableFile, read_table

FRAME = pd.DataFrame(
    {
        "site": ["Århus", "Bern", 'a "quoted", name'],
        "age": [11, 12, 13],
        "dose": [0.1, 1e-300, 123456789.123456789],
        "smokes": [True, False, True],
    }
)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def csv_of(frame, separator=","):
    return frame.to_csv(index=False, sep=separator).encode()


def test_every_format_gives_the_same_table(tmp_path):
    text = csv_of(FRAME)
    paths = [
        write(tmp_path, "a.csv", text),
        write(tmp_path, "a.CSV", text),
        write(tmp_path, "a.tsv", csv_of(FRAME, "\t")),
        write(tmp_path, "tabs.txt", csv_of(FRAME, "\t")),
        write(tmp_path, "commas.txt", text),
        write(tmp_path, "a.csv.gz", gzip.compress(text)),
        write(tmp_path, "bom.csv", b"\xef\xbb\xbf" + text),
        write(tmp_path, "crlf.csv", text.replace(b"\n", b"\r\n")),
        write(tmp_path, "wide.csv", text.decode().encode("utf-16")),
        tmp_path / "a.parquet",
        tmp_path / "a.feather",
    ]
    FRAME.to_parquet(tmp_path / "a.parquet")
    FRAME.to_feather(tmp_path / "a.feather")
    for path in paths:
        assert_frame_equal(read_table(path), FRAME, check_dtype=False)


def test_numbers_are_read_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, size=500)
    path = write(tmp_path, "a.csv", csv_of(pd.DataFrame({"x": numbers, "y": 1})))
    np.testing.assert_array_equal(read_table(path)["x"], numbers)


def test_leading_zeros_make_a_name(tmp_path):
    frame = read_table(write(tmp_path, "a.csv", "id,n,z\n001,1,0\n012,10,0.5\n"))
    assert frame["id"].tolist() == ["001", "012"]
    assert frame["n"].tolist() == [1, 10]
    assert frame["z"].tolist() == [0.0, 0.5]


def test_columns_named_as_text_stay_text(tmp_path):
    path = write(tmp_path, "a.csv", "version,x\n1.10,1\n1.1,2\n")
    assert read_table(path)["version"].nunique() == 1
    assert read_table(path, text=["version", "absent"])["version"].tolist() == ["1.10", "1.1"]


@pytest.mark.parametrize(
    ("name", "content", "note"),
    [
        ("a.csv", "site;x\nA;1,5\nB;2,5\n", "semicolons between cells, decimal comma"),
        ("a.csv", "site\tx\nA\t1.5\nB\t2.5\n", "tabs between cells"),
        ("a.tsv", "site|x\nA|1.5\nB|2.5\n", "bars between cells"),
        ("a.txt", "site  x\nA  1.5\nB  2.5\n", "spaces between cells"),
        ("a.csv", "site;x\nÅ;1,5\nB;2,5\n".encode("latin-1"), "decimal comma, Latin-1"),
        ("a.csv", "site,x\nA,1.5\nB,2.5\n".encode("utf-16"), "UTF-16"),
        ("a.csv", "site,x\nA,1.5\nB,2.5\n".encode("utf-16-le"), "UTF-16-LE"),
    ],
)
def test_separator_decimal_mark_and_encoding_are_found_out_and_told(tmp_path, name, content, note):
    file = TableFile(write(tmp_path, name, content))
    frame = file.frame()
    assert frame["x"].tolist() == [1.5, 2.5]
    assert frame["site"].tolist()[1] == "B"
    assert note in file.notes[0]


def test_options_override_what_is_found_out_and_names_that_repeat_are_numbered(tmp_path):
    path = write(tmp_path, "a.csv", "x;y,z\n5;2,1\n")
    file = TableFile(path, separator=",", decimal=".", encoding="latin-1")
    assert list(file.frame().columns) == ["x;y", "z"]
    assert file.notes == []
    for odd in ({"encoding": "morse"}, {"separator": ";;"}, {"separator": "\n"}, {"decimal": ";"}):
        with pytest.raises(TableError, match=r"must be one character|is unknown"):
            TableFile(path, **odd).frame()
    file = TableFile(write(tmp_path, "b.csv", "a,b,a,a.2,\n1,2,3,4,5\n"))
    assert list(file.frame().columns) == ["a", "b", "a.3", "a.2", "Unnamed: 4"]
    assert "several columns are called 'a'" in file.notes[0]


def test_codes_of_missing_cells_are_missing(tmp_path):
    path = write(tmp_path, "a.csv", " x ,y,z\n1, . ,a\n-999,NULL,c\n3, n/a,-999\n4,-, b \n")
    frame = TableFile(path, missing=["-999"]).frame()
    assert frame["x"].isna().tolist() == [False, True, False, False]
    assert frame["y"].isna().all()
    assert frame["z"].fillna("gap").tolist() == ["a", "c", "gap", "b"]


def test_a_sheet_is_read_from_its_header_on(tmp_path):
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    header = [["Patients of 2024"], [], ["site", "age", "seen"]]
    for row in [*header, ["A", 61, "x"], [None, "n/a", None], ["B", 62, "y"]]:
        sheet.append(row)
    book.create_sheet("more").append(["a", "b"])
    book["more"].append([1, 2])
    book.save(tmp_path / "a.xlsx")
    file = TableFile(tmp_path / "a.xlsx")
    assert file.frame()["age"].tolist() == [61.0, 62.0]
    assert "first of the sheets 'Sheet', 'more'" in file.notes[0]
    for sheet in ("more", "2"):
        assert TableFile(tmp_path / "a.xlsx", sheet=sheet).frame().to_dict("list") == {"a": [1], "b": [2]}
    with pytest.raises(TableError, match="has no sheet 'mor': did you mean 'more'"):
        TableFile(tmp_path / "a.xlsx", sheet="mor").frame()


@pytest.mark.parametrize("suffix", ["sav", "dta"])
def test_value_labels_of_survey_files_are_levels(tmp_path, suffix):
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pd.DataFrame({"ward": [1.0, 2.0, 1.0, 2.0], "age": [61.0, 99.0, 43.0, 27.0]})
    labels = {"ward": {1: "medicine", 2: "surgery"}, "age": {99: "refused"}}
    path = tmp_path / f"a.{suffix}"
    getattr(pyreadstat, f"write_{suffix}")(frame, str(path), variable_value_labels=labels)
    found = read_table(path)
    assert found["ward"].tolist() == ["medicine", "surgery", "medicine", "surgery"]
    assert found["age"].fillna(-1.0).tolist() == [61.0, -1.0, 43.0, 27.0]


def test_a_missing_library_is_told_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyreadstat", None)
    with pytest.raises(ImportError, match="extra 'files'"):
        read_table(write(tmp_path, "a.sav", b"$FL2"))


def test_verbatim_is_what_stands_in_the_file(tmp_path):
    text = "id,x,note\n007,1.50,NA\n8,,true\n"
    frame = TableFile(write(tmp_path, "a.csv", text)).verbatim()
    assert frame.to_csv(index=False, lineterminator="\n") == text


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.csv", b"", "is empty: it must have a header"),
        ("a.csv", b"x,y\n", "has a header but no rows"),
        ("a.csv", b"x,y\n1,2,3\n4,5,6\n", "cannot be read as a table"),
        ("a.csv", b"x,y\n1,2\n1,2,3\n", "Expected 2 fields in line 3, saw 3. Every row must have as many"),
        ("a.csv", b"x\n1\n", "has a single column, 'x': it needs more"),
        ("a.csv", b"PK\x03\x04\0\0\0", "is not text"),
        ("a.csv.gz", gzip.compress(b"x,y\n1,2\n" * 99, mtime=0)[:-9], "is not a whole gzip file"),
        ("a.parquet", b"PAR1 nonsense PAR1", "is not a whole .parquet file"),
        ("a.feather", b"x,y\n1,2\n", "is not a whole .feather file"),
        ("a.xlsx", b"PK", "is not a whole .xlsx file"),
        ("a.sav", b"PK", "is not a whole .sav file"),
        ("a.docx", b"PK", "is not a table mmtfl reads: use .csv"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path, name, content, line):
    path = write(tmp_path, name, content)
    with pytest.raises(TableError) as error:
        read_table(path)
    assert line in str(error.value)
    assert repr(str(path)) in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(TableError, match="There is no file"):
        read_table(tmp_path / "a.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match="cannot be read: Is a directory"):
        read_table(tmp_path / "folder.csv")


def test_spaces_around_text_are_left_out_and_told(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("site,age,alb\n Bern,1,  \nBern ,2,4.5\nBern,3, 5\n\u00a0Cork,4,6\n", encoding="utf-8")
    file = TableFile(path)
    frame = file.frame(text=["site"])
    assert frame["site"].tolist() == ["Bern", "Bern", "Bern", "Cork"]
    assert file.notes == ["spaces around text are left out: 'site'"]
    # a cell of spaces is missing, and does not make text of the numbers around it
    assert frame["alb"].dtype == float and frame["alb"].isna().tolist() == [True, False, False, False]
    assert file.verbatim()["site"].tolist() == [" Bern", "Bern ", "Bern", "\u00a0Cork"]


def test_rows_without_any_value_are_left_out_everywhere(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("site,age\nBern,1\n,\n  ,\nCork,2\n,\n")
    file = TableFile(path)
    assert file.frame()["age"].tolist() == [1.0, 2.0]
    assert file.notes == ["3 rows without any value left out"]
    assert file.verbatim()["site"].tolist() == ["Bern", "Cork"]
    path.write_text("site,age\n,\n")
    with pytest.raises(TableError, match="no rows"):
        TableFile(path).frame()


@pytest.mark.parametrize("empty", ["\n", "\r\n", "\n\n"])
def test_empty_lines_before_the_header_are_left_out(tmp_path, empty):
    path = tmp_path / "table.csv"
    path.write_bytes(f"{empty}school,score{empty}A,1.5\nB,2.5\n".encode())
    table = TableFile(path)
    assert table.header == ["school", "score"]
    assert table.frame().to_dict("list") == {"school": ["A", "B"], "score": [1.5, 2.5]}
    assert table.verbatim().to_numpy().tolist() == [["A", "1.5"], ["B", "2.5"]]
