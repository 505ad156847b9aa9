"""Tables from disk: every format gives the same values, and every bad file one clear line."""

import gzip

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from mmtfl.tables import reading
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


def test_separator_and_decimal_mark(tmp_path):
    path = write(tmp_path, "a.csv", "x;y\n1,5;2\n2,5;3\n")
    assert read_table(path, separator=";", decimal=",")["x"].tolist() == [1.5, 2.5]
    with pytest.raises(TableError, match=r"single column, 'x;y': is it separated by ';'\? Use --separator"):
        read_table(path)


def test_quoted_newlines_and_hostile_names(tmp_path):
    path = write(tmp_path, "a.csv", '"two\nlines","=cmd()","<b>,\u202e"\n"a\nb",1,2\n')
    frame = read_table(path)
    assert list(frame.columns) == ["two\nlines", "=cmd()", "<b>,\u202e"]
    assert frame.iloc[0, 0] == "a\nb"


def test_verbatim_is_what_stands_in_the_file(tmp_path):
    text = "id,x,note\n007,1.50,NA\n8,,true\n"
    frame = TableFile(write(tmp_path, "a.csv", text)).verbatim()
    assert frame.to_csv(index=False, lineterminator="\n") == text


def test_an_index_with_a_name_is_a_column(tmp_path):
    FRAME.set_index("site").to_parquet(tmp_path / "a.parquet")
    assert "site" in read_table(tmp_path / "a.parquet").columns


def test_the_hash_is_that_of_the_file(tmp_path):
    import hashlib

    path = write(tmp_path, "a.csv.gz", gzip.compress(csv_of(FRAME)))
    assert TableFile(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.csv", b"", "is empty: it must have a header"),
        ("a.csv", b"\n \n", "is empty: it must have a header"),
        ("a.csv", b"x,y\n", "has a header but no rows"),
        ("a.csv", b"x,y,x\n1,2,3\n", "more than one column 'x'"),
        ("a.csv", b"x,y\n1,2,3\n4,5,6\n", "cannot be read as a table"),
        ("a.csv", b"x,y\n1,2\n1,2,3\n", "Expected 2 fields in line 3, saw 3. Every row must have as many"),
        ("a.csv", b'x,y\n1,"2\n', "cannot be read as a table"),
        ("a.csv", b"x\n1\n", "has a single column, 'x': it needs more"),
        ("a.csv", b"x\ty\n1\t2\n", "is it separated by tab?"),
        ("a.csv", b"x,y\ncaf\xe9,2\n", "is not UTF-8 text (line 2)"),
        ("a.csv", b"PK\x03\x04\0\0\0", "is not text"),
        ("a.csv.gz", b"x,y\n1,2\n", "is not a whole gzip file"),
        ("a.csv.gz", gzip.compress(b"x,y\n1,2\n" * 99, mtime=0)[:-9], "is not a whole gzip file"),
        ("a.parquet", b"PAR1 nonsense PAR1", "is not a whole .parquet file"),
        ("a.feather", b"x,y\n1,2\n", "is not a whole .feather file"),
        ("a.xlsx", b"PK", "is not a table mmtfl reads: use .csv"),
        ("table", b"x,y\n1,2\n", "is not a table mmtfl reads"),
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


@pytest.mark.parametrize(("option", "value"), [("separator", ";;"), ("separator", "\n"), ("decimal", ";")])
def test_odd_marks_are_refused(tmp_path, option, value):
    with pytest.raises(TableError, match=r"must be one character|is unknown"):
        read_table(write(tmp_path, "a.csv", "x,y\n1,2\n"), **{option: value})


def test_spaces_around_text_are_left_out_and_told(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("site,age,alb\n Bern,1,  \nBern ,2,4.5\nBern,3, 5\n\u00a0Cork,4,6\n", encoding="utf-8")
    file = TableFile(path)
    frame = file.frame(text=["site"])
    assert frame["site"].tolist() == ["Bern", "Bern", "Bern", "Cork"]
    assert file.notes == ["spaces around text are left out: 'site' (3 cells)"]
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


def test_all_repeated_columns_are_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,a,b,c\n1,2,3,4,5\n")
    with pytest.raises(TableError, match="more than one column 'a', 'b'"):
        read_table(path)


def test_another_separator_is_guessed_as_it_is_typed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b\n1;2\n")
    with pytest.raises(TableError, match="Use --separator ';'"):
        read_table(path)


@pytest.mark.parametrize("index", ["none", "named", "numbers"])
def test_a_wide_parquet_file_is_the_same_frame_as_in_one_piece(tmp_path, monkeypatch, index):
    monkeypatch.setattr(reading, "_WIDE", 3)
    frame = pd.DataFrame({f"x{j}": np.arange(4.0) + j for j in range(7)})
    frame["x"] = [1, 2, 3, 4]
    frame["is"] = [True, False, True, False]
    frame["x.y"] = ["a", None, "b", "c"]  # not a part of column x, which is in another piece
    frame["site"] = pd.Categorical(["n", "s", "n", "s"])
    if index == "named":
        frame = frame.set_index("x3")
    if index == "numbers":
        frame.index = [5, 5, 7, 9]
    frame.to_parquet(tmp_path / "wide.parquet")
    expected = frame.reset_index() if index == "named" else frame
    pd.testing.assert_frame_equal(read_table(tmp_path / "wide.parquet"), expected)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "csv.gz"])
def test_a_file_that_changes_between_hash_and_values_is_refused(tmp_path, suffix):
    path = tmp_path / f"table.{suffix}"

    def write_rows(n_rows):
        frame = pd.DataFrame({"a": np.arange(n_rows), "b": 0.5})
        frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)

    write_rows(2)
    file = TableFile(path)
    write_rows(30)
    with pytest.raises(TableError, match="has changed since it was opened"):
        file.frame()
    path.unlink()
    with pytest.raises(TableError, match="has gone since it was opened"):
        file.frame()


CELLS = [
    "1",
    "2",
    "-3",
    "0.5",
    "1e300",
    "007",
    "12345678901234567890",
    "",
    "NA",
    " ",
    "x",
    " y ",
    "True",
    "false",
]
CELLS += ['"a,b"', '"two\nlines"', '"say ""no"""', "é"]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
@pytest.mark.parametrize("seed", range(30))
def test_a_text_file_is_the_same_frame_by_pieces_as_in_one(tmp_path, monkeypatch, seed, suffix):
    rng = np.random.default_rng(seed)
    # the first rows of a column draw from few kinds of cells, the others from more
    few, more = rng.choice(CELLS, (5, 2)), rng.choice(CELLS, (5, int(rng.integers(2, 5))))
    rows = [[rng.choice((few if i < 5 else more)[j]) for j in range(5)] for i in range(12)]
    text = "\n".join(["a,b,c,d,", *(",".join([*row, "1"][:5]) for row in rows)]) + "\n"
    path = tmp_path / f"table.{suffix}"
    path.write_bytes(text.encode() if suffix == "csv" else gzip.compress(text.encode()))
    whole = _all_that_is_read(path)
    monkeypatch.setattr(reading, "_CELLS", 15)
    monkeypatch.setattr(reading, "_BLOCK", 7)
    monkeypatch.setattr(reading, "_WIDE", 2)
    for one, by_pieces in zip(whole, _all_that_is_read(path), strict=True):
        assert_frame_equal(by_pieces, one)


def _all_that_is_read(path):
    file = TableFile(path)
    return file.frame(), file.verbatim(), TableFile(path).frame(text=["b"])


def test_an_error_in_a_later_piece_names_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_CELLS", 6)
    path = write(tmp_path, "a.csv", "x,y\n" + "1,2\n" * 20 + "1,2,3\n")
    with pytest.raises(TableError, match="Expected 2 fields in line 22, saw 3"):
        read_table(path)


def test_an_encoding_error_far_into_a_file_names_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_BLOCK", 5)
    path = write(tmp_path, "a.csv", "é,y\n".encode() * 20 + b"caf\xe9,2\n")
    with pytest.raises(TableError, match=r"is not UTF-8 text \(line 21\)"):
        read_table(path)


@pytest.mark.parametrize("empty", ["\n", "\r\n", "\n\n"])
def test_empty_lines_before_the_header_are_left_out(tmp_path, empty):
    path = tmp_path / "table.csv"
    path.write_bytes(f"{empty}school,score{empty}A,1.5\nB,2.5\n".encode())
    table = TableFile(path)
    assert table.header == ["school", "score"]
    assert table.frame().to_dict("list") == {"school": ["A", "B"], "score": [1.5, 2.5]}
    assert table.verbatim().to_numpy().tolist() == [["A", "1.5"], ["B", "2.5"]]
