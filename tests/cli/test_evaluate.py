"""`whence evaluate`: texts from a table, files out, and wrong calls."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.test_cli import run
from tests.trust.subjects import reviews


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of labelled reviews, two of which are empty."""
    path = tmp_path / "reviews.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "review", "stars"])
        writer.writerows([n, text, ["very negative", "4"][n % 2]] for n, text in enumerate([*reviews()[:10], "", " "]))
    return path


def test_a_table_is_evaluated_and_a_method_chosen(table: Path, tmp_path: Path) -> None:
    done = run(
        "evaluate", "--data", str(table), "--text", "review", "--label", "stars", "--output", str(tmp_path / "out"),
        "--method", "lrp", "--method", "lrp(delta=1, epsilon=0.01)", "--method", "gi", "--choose", "--limit", "9",
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == "", done.stderr
    right = round(9 * json.loads((tmp_path / "out" / "results.json").read_text())["accuracy"])
    assert done.stdout.startswith(f"accuracy {100 * right / 9:.1f} %: {right} of 9 predictions are right, {9 - right} wrong\n")
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert found["texts"] == 9 and found["left_out"] == {"no word in it": 2}
    names = ["lrp", "lrp(epsilon=0.01, delta=1)", "gi"]
    assert list(found["methods"]) == [*(each for name in names for each in (name, f"{name}:rest")), "random"]
    assert found["recommendation"]["sentences"][0] in done.stdout
    with (tmp_path / "out" / "leaderboard.csv").open() as file:
        assert {row["method"] for row in csv.DictReader(file)} == set(found["methods"])
    assert "report.html" in done.stdout and (tmp_path / "out" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("header", ["review", "review;day", "review;label"])
def test_texts_without_labels_are_explained_for_the_predicted_class(header: str, tmp_path: Path) -> None:
    path = tmp_path / "only.csv"
    rest = ";" * header.count(";") + "neutral" * header.endswith("label")
    lines = [header, *(f"{text.replace(';', ',')} é{rest}" for text in reviews()[:3])]
    path.write_text("\n".join(lines), encoding="latin-1")
    done = run(
        "evaluate", "--data", str(path), "--output", str(tmp_path / "out"), "--method", "gi", "--encoding", "latin-1",
        "--delimiter", ";", *(["--text", "review"] if rest else []),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert found["texts"] == 3 and (found["accuracy"] is None) == (not header.endswith("label"))
    assert ("there are no labels, so the predicted class of every text is explained" in done.stderr) == (
        found["accuracy"] is None
    )
    assert ("accuracy" in done.stdout.splitlines()[0]) == header.endswith("label")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", "nothing"], "has no column 'nothing'; its columns are 'id', 'review', 'stars'"),
        (["--text", "review", "--label", "id"], "the label of text 6 is '5'; sst-bilstm knows very negative"),
        (["--text", "review", "--label", "stars", "--method", "lime"], "--method lime: there is no such method"),
        (["--text", "review", "--label", "stars", "--method", "lrp(gamma"], "the bracket is not closed"),
        (["--text", "review", "--label", "stars", "--method", "lrp(x=1)"], "lrp has the settings epsilon, delta"),
        (["--text", "review", "--label", "nothing"], "has no column 'nothing'; its columns are 'id', 'review', 'stars'"),
        (["--text", "review", "--encoding", "ufo"], "encoding 'ufo' is not known"),
        (["--sst", "."], "--sst and --data are both given"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(table: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run("evaluate", "--data", str(table), "--output", str(tmp_path / "out"), *arguments)
    assert done.returncode in (1, 2) and message in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
