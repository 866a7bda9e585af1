"""The page's reader of CSV files, run in the browser that it is written for."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.web.browser import browsing, serving, visiting

FEATURES = ["rain", "temperature"]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with serving() as address, browsing() as browser, visiting(browser, address) as found:
        yield found


def parsed(page: Page, text: str) -> Any:
    return page.evaluate(
        """async (text) => {
            const { CsvError, parse } = await import("/page/csv.js");
            try { return parse(text); } catch (error) { if (error instanceof CsvError) return error.message; throw error; }
        }""",
        text,
    )


def series(page: Page, text: str, features: list[str] = FEATURES, limit: int = 100, fill: Any = None) -> Any:
    return page.evaluate(
        """async ([text, features, limit, fill]) => {
            const { readSeries } = await import("/page/series/reading.js");
            const { CsvError } = await import("/page/csv.js");
            try { return readSeries(text, { features, limit, fill, step: "day" }); }
            catch (error) { if (error instanceof CsvError) return error.message; throw error; }
        }""",
        [text, features, limit, fill],
    )


@pytest.mark.parametrize(
    ("text", "separator", "records"),
    [
        ("a,b\n1,2\n", ",", [["a", "b"], ["1", "2"]]),
        ("\ufeffa;b\r\n1,5;2\r\n", ";", [["a", "b"], ["1,5", "2"]]),
        ("a\tb\r1\t2", "\t", [["a", "b"], ["1", "2"]]),
        ("a|b\n1|2", "|", [["a", "b"], ["1", "2"]]),
        ('a,"b,c"\n"say ""hi""",2', ",", [["a", "b,c"], ['say "hi"', "2"]]),
        ('a,"two\nlines"\n1,', ",", [["a", "two\nlines"], ["1", ""]]),
        ('5" pipe,2\n1,2', ",", [['5" pipe', "2"], ["1", "2"]]),
        ("one\n\n\ntwo", ",", [["one"], ["two"]]),
        ("", ",", []),
    ],
)
def test_records_are_cut_as_written(page: Page, text: str, separator: str, records: list[list[str]]) -> None:
    found = parsed(page, text)
    assert found["separator"] == separator
    assert [record["cells"] for record in found["records"]] == records


def test_lines_are_counted_through_blank_lines_and_quotes(page: Page) -> None:
    found = parsed(page, 'a,b\n\n"x\ny",1\nz,2')
    assert [record["line"] for record in found["records"]] == [1, 3, 5]


def test_a_quote_that_stays_open_is_named_with_its_place(page: Page) -> None:
    assert parsed(page, 'a,b\n1,"2') == "Line 2, column 2: the quote that opens here is never closed."


@pytest.mark.parametrize(
    ("text", "labels", "values", "note"),
    [
        ("date,rain,temperature\nMon,1,2\nTue,3,-4.5e1", ["Mon", "Tue"], [[1, 2], [3, -45]], None),
        ("Temperature (°C);RAIN\n−2,5;1", ["day 0"], [[1, -2.5]], "Commas were read as decimal commas."),
        ("1,2\n3,4", ["day 0", "day 1"], [[1, 2], [3, 4]], "There is no header, so columns were taken in order"),
        ("2001,5,6\n2002,7,8", ["2001", "2002"], [[5, 6], [7, 8]], "column 2 as rain"),
        ("a,b\n1,2", ["day 0"], [[1, 2]], "“a” as rain, “b” as temperature"),
        ("day,wind,rain,temperature\n1,9,5,6", ["1"], [[5, 6]], "Not used: “wind”."),
        ("station,date,rain,temperature\nA,2001-02-03,5,6", ["2001-02-03"], [[5, 6]], "Not used: “station”."),
        ("rain,temperature,when\n5,6,03.02.2001 04:00", ["03.02.2001 04:00"], [[5, 6]], None),
        ("pressure,rain,temperature\n1013,5,6", ["day 0"], [[5, 6]], "Not used: “pressure”."),
        ("A,2001-02-03,5,6\nA,2001-02-04,7,8", ["2001-02-03", "2001-02-04"], [[5, 6], [7, 8]], "Not used: column 1."),
        ("date,rain,temperature\n2001-02-04,5,6\n2001-02-03,7,8", ["2001-02-03", "2001-02-04"], [[7, 8], [5, 6]], "newest"),
        ("date,rain,temperature\n2/1/2001,5,6\n1/31/2001,7,8", ["1/31/2001", "2/1/2001"], [[7, 8], [5, 6]], "newest"),
        ("date,rain,temperature\n2/1/2001,5,6\n1/2/2001,7,8", ["2/1/2001", "1/2/2001"], [[5, 6], [7, 8]], None),
        ("date,rain,temperature\n31/1/2001,5,6\n1/2/2001,7,8", ["31/1/2001", "1/2/2001"], [[5, 6], [7, 8]], None),
        (
            "date,rain,temperature\n2001-01-01,1,2\n2001-01-03,1,2\n2001-01-02,1,2",
            ["2001-01-01", "2001-01-03", "2001-01-02"],
            [[1, 2]] * 3,
            "neither forward nor backward",
        ),
    ],
)
def test_columns_find_their_features(page: Page, text: str, labels: list[str], values: Any, note: str | None) -> None:
    found = series(page, text)
    assert found["labels"] == labels and found["values"] == values
    assert (note is None and found["notes"] == []) or (note is not None and note in " ".join(found["notes"]))


@pytest.mark.parametrize(
    ("text", "fill", "values", "note"),
    [
        ("1,\n,4\n5,6", {"with": "before"}, [[1, 4], [1, 4], [5, 6]], "before, 1 at the start with the first value after."),
        ("1,2\n,4\n,6", {"with": "before"}, [[1, 2], [1, 4], [1, 6]], "2 missing values were filled with the value before."),
        ("1,2\n,4", {"with": "reference", "values": [7, 8]}, [[1, 2], [7, 4]], "1 missing value was filled with the reference"),
    ],
)
def test_missing_values_are_filled_as_asked_and_counted(page: Page, text: str, fill: Any, values: Any, note: str) -> None:
    found = series(page, f"rain,temperature\n{text}", fill=fill)
    assert found["values"] == values
    assert note in found["notes"][-1]


def test_the_value_before_is_that_of_the_day_before_in_a_file_with_the_newest_first(page: Page) -> None:
    found = series(page, "date,rain\n2001-01-03,3\n2001-01-02,\n2001-01-01,1", features=["rain"], fill={"with": "before"})
    assert found["values"] == [[1], [1], [3]]


def test_a_column_without_any_value_cannot_be_filled(page: Page) -> None:
    assert series(page, "rain,temperature\n,1", fill={"with": "before"}) == "The column rain has no value at all."


def test_a_model_without_named_features_takes_the_columns_of_the_file(page: Page) -> None:
    found = series(page, "time,a,b\n1,2,3\n4,5,6", features=[])
    assert (found["features"], found["labels"], found["values"]) == (["a", "b"], ["1", "4"], [[2, 3], [5, 6]])
    assert series(page, "1,2\n3,4", features=[])["features"] == ["feature 0", "feature 1"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "There is no line with values. Paste or upload a CSV with one line per step."),
        ("rain,temperature", "The file has a header but no line with values."),
        ("rain,temperature\n1,2\n1,", "1 value is missing, in line 3, column temperature. Fill it in the file, or here:"),
        (
            "rain,temperature\nNaN,2\n1,2\n,-",
            "3 values are missing, the first in line 2, column rain. Fill them in the file, or here:",
        ),
        ("rain,temperature\n1,warm", "Line 2, column 2 (temperature): “warm” is not a number."),
        ("rain,temperature\n1,Infinity", "Line 2, column 2 (temperature): “Infinity” is not a number."),
        ("rain,temperature\n1,1e999", "Line 2, column 2 (temperature): “1e999” is too large a number."),
        (
            "rain;temperature\n1,5;2.5",
            "Line 2, column 1 (rain): “1,5” mixes commas and points. Write numbers without thousands separators.",
        ),
        ("rain,temperature\n1", "Line 2 has 1 cell, the first line 2."),
        ("rain,temperature\n1,5,2,5", "Line 2 has 4 cells, the first line 2. Are there commas inside its numbers?"),
        ("rain\n1", "The model reads 2 columns (rain, temperature); the file has 1, and “temperature” is not among them."),
        ("rain,rain,temperature\n1,1,1", "Line 1: the column “rain” stands there twice."),
        ("rain,temperature\n" + "1,2\n" * 101, "The file has 101 steps; at most 100 are taken. Cut it and try again."),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence_with_its_place(page: Page, text: str, sentence: str) -> None:
    assert series(page, text) == sentence


def test_written_cells_are_quoted_and_run_no_formula(page: Page) -> None:
    line = page.evaluate(
        """async () => (await import("/page/csv.js")).csvLine(
            ["=1+1", "+x", "-x", "@x", -1.5, 'say "hi"', "a,b", "two\\nlines", null, "plain"])"""
    )
    assert line == '"\'=1+1","\'+x","\'-x","\'@x",-1.5,"say ""hi""","a,b","two\nlines",,plain\r\n'
