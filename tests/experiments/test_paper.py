"""The paper recomputed: on a small treebank that the test writes itself, and on SST where it is available."""

import copy
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import whence
from whence.experiments import fig3_deletion, test_set
from whence.experiments.published import DISCUSSED, TABLE1
from whence.experiments.test_set import TestSet, backward_size, forward_size
from whence.render import figure

SOURCE = str(Path(whence.__file__).parents[1])  # a command runs the code that is tested here
GOOD = "thrilling worthy entertaining romantic funny gorgeous honest excellent superb must-see".split()
BAD = "waste horrible disaster repetitive dull predictable lacking nonsense fails bad".split()
PLAIN = "the a film story of and with it is this that plot scene actor <script>x</script> $x_1$ \\textbf{x} &amp;".split()


def tree(words: list[str], label: int) -> str:
    """A tree that branches to the right."""
    if len(words) == 1:
        return f"({label} {words[0]})"
    return f"({label} (2 {words[0]}) {tree(words[1:], label)})"


def write_treebank(folder: Path, *, sentences: int, longest: int, seed: int = 1) -> Path:
    draw = random.Random(seed)
    folder.mkdir()
    for split in ("train", "dev", "test"):
        lines: list[str] = []
        for n in range(sentences):
            label = n % 5
            pool = PLAIN + (GOOD if label > 2 else BAD if label < 2 else GOOD + BAD) * abs(label - 2) + ["n't", "not"]
            words = [draw.choice(pool) for _ in range(draw.randint(1, longest))]
            lines.append(tree(words, label))
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_treebank(tmp_path_factory.mktemp("data") / "trees", sentences=60, longest=26)


@pytest.fixture(scope="module")
def made(treebank: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    output = tmp_path_factory.mktemp("made") / "paper"
    return whence.experiments.run(sst=treebank, output=output), output


def command(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "from whence.cli.main import main; main()"
    words = [sys.executable, "-c", code, "paper", *map(str, arguments)]
    return subprocess.run(
        words, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": SOURCE, **environment}
    )


def test_every_number_is_in_results(made: tuple[dict[str, Any], Path], treebank: Path) -> None:
    results, output = made
    assert json.loads((output / "results.json").read_text(encoding="utf-8")) == results
    lengths = [line.count("(2 ") + 1 for line in (treebank / "test.txt").read_text(encoding="utf-8").splitlines()]
    assert results["counts"]["sentences"] == 60
    assert results["counts"]["position"] <= results["counts"]["deletion"] <= sum(length >= 10 for length in lengths) + 5
    assert sum(map(sum, results["confusion"])) == 60
    assert sum(row[n] for n, row in enumerate(results["confusion"])) / 60 == pytest.approx(results["accuracy"]["five"])
    for side, start in (("correct", 1.0), ("wrong", 0.0)):
        assert set(results["fig3"][side]) == {"sa", "lrp", "lrp_cons", "gi", "random"}
        for curve in results["fig3"][side].values():
            assert len(curve) == 6
            assert curve[0] == start
    assert sum(results["fig3"]["sentences"].values()) == results["counts"]["deletion"]
    for method in ("sa", "lrp"):
        assert set(results["fig4"][method]) == {"total", "left", "right"}
        for part in results["fig4"][method].values():
            for distribution in part.values():
                assert len(distribution) == 10
                assert sum(distribution) == pytest.approx(1, abs=1e-9)
        assert len(results["table1"][method]["most"]) == 10
        assert len(set(results["table1"][method]["most"])) == 10
    assert all({"claim", "holds", "statistic"} <= set(finding) for finding in results["findings"])
    assert not results["data"]["is_official"]


def test_heatmaps_show_the_discussed_words(made: tuple[dict[str, Any], Path], treebank: Path) -> None:
    shown = made[0]["heatmaps"]["sentences"]
    assert [each["number"] for each in shown] == list(range(1, len(shown) + 1))
    assert {each["label"] for each in shown} == {"very negative", "very positive"}
    trees = (treebank / "test.txt").read_text(encoding="utf-8").splitlines()
    present = {word for line in trees if line[1] in "04" for word in re.findall(r"\(\d ([^()]+)\)", line)}
    assert {word for each in shown for word in each["words"]} >= present.intersection(DISCUSSED)
    ranks = [(each["label"] == "very positive", each["label"] != each["predicted"]) for each in shown]
    assert ranks == sorted(ranks)


def test_files_are_whole_and_the_page_needs_nothing_else(made: tuple[dict[str, Any], Path]) -> None:
    _, output = made
    pictures = ["confusion", "fig1_sa_heatmaps", "fig2_lrp_heatmaps", "fig3_deletion", "fig4_position"]
    names = {f"{name}.{kind}" for name in pictures for kind in ("png", "pdf")} | {"report.html", "results.json"}
    assert {path.name for path in output.iterdir()} == names
    for name in names:
        start = (output / name).read_bytes()[:5]
        assert start == {"png": b"\x89PNG\r", "pdf": b"%PDF-", "html": b"<!DOC", "json": b'{\n "w'}[name.rsplit(".")[-1]]
    page = (output / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    assert set(re.findall(r'href="#(\w+)"', page)) <= set(re.findall(r'id="(\w+)"', page))
    assert "not the published files" in page


def test_two_runs_differ_in_times_alone(made: tuple[dict[str, Any], Path], treebank: Path) -> None:
    results, output = made
    before = {path.name: path.read_bytes() for path in output.iterdir() if path.suffix in (".png", ".pdf")}
    again = whence.experiments.run(sst=treebank, output=output)  # into the same folder
    assert {**again, "seconds": None} == {**results, "seconds": None}
    assert {path.name: path.read_bytes() for path in output.iterdir() if path.suffix in (".png", ".pdf")} == before


def test_short_sentences_leave_figures_out_and_say_so(tmp_path: Path) -> None:
    folder = write_treebank(tmp_path / "trees", sentences=6, longest=4)
    results = whence.experiments.run(sst=folder, output=tmp_path / "paper")
    assert results["counts"] == {"sentences": 6, "deletion": 0, "position": 0}
    assert results["fig3"]["correct"] == {}
    assert results["fig4"]["lrp"] == {}
    assert not (tmp_path / "paper" / "fig3_deletion.png").exists()
    assert "No sentence has 19 words or more" in (tmp_path / "paper" / "report.html").read_text(encoding="utf-8")
    assert any(finding["holds"] is None for finding in results["findings"])


def test_a_model_of_characters_is_measured_by_its_words(tmp_path: Path) -> None:
    folder = write_treebank(tmp_path / "trees", sentences=10, longest=22)
    results = whence.experiments.run(sst=folder, output=tmp_path / "paper", model="sst-char-gru")
    assert results["model"]["name"] == "sst-char-gru"
    assert all(len(word) > 1 for word in results["table1"]["lrp"]["most"][:3])


def test_long_sentences_are_explained_few_at_a_time() -> None:
    """So that a character model shows progress and can be interrupted soon."""
    draw = random.Random(0)
    texts = [tuple(draw.choice(GOOD + BAD) for _ in range(draw.randint(1, 22))) for _ in range(40)]
    test = TestSet(whence.load("sst-char-gru"), texts, [n % 5 for n in range(40)])
    seen: list[int] = []
    found = test.explained(whence.LRP(), report=seen.append)
    assert sum(seen) == 40
    assert max(seen[3:]) < 15  # sentences of some hundred characters
    assert [each.tokens for each in found] == texts
    for size in (forward_size, backward_size):
        parts = test.parts(range(5, 40), size=size)
        assert sorted(k for part in parts for k in part) == list(range(35))
        longest = [max(test.words[5 + k][-1].stop for k in part) for part in parts]
        assert longest == sorted(longest)
        assert all(len(part) <= max(1, size(length)) for part, length in zip(parts, longest, strict=True))
    assert backward_size(10**6) == forward_size(10**6) == 0  # which means: each alone
    assert test.parts([0, 1], size=lambda tokens: 0) in ([[0], [1]], [[1], [0]])


def test_parts_change_no_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)
    texts = [tuple(draw.choice(GOOD + BAD + PLAIN) for _ in range(draw.randint(10, 22))) for _ in range(30)]
    pipeline, labels = whence.load("sst-bilstm"), [n % 5 for n in range(30)]
    test, by_parts = TestSet(pipeline, texts, labels), TestSet(pipeline, texts, labels)
    explanations = {"lrp": test.explained(whence.LRP())}
    whole = fig3_deletion.fig3(test, explanations)
    for module in (test_set, fig3_deletion):
        monkeypatch.setattr(module, "forward_size", lambda tokens: 7)
    scored: list[int] = []
    torch.testing.assert_close(by_parts.scored(scored.append), test.scores)
    assert by_parts.scores is by_parts.scores
    assert scored == [7, 7, 7, 7, 2]
    deleted: list[int] = []
    found = fig3_deletion.fig3(by_parts, explanations, report=deleted.append)
    assert max(deleted) == 7
    assert sum(deleted) == 30 * (1 + 10)
    for side, curves in whole.items():
        for method, hits in curves.hits.items():
            assert (found[side].hits[method] == hits).all()
        assert (found[side].runs == curves.runs).all()


def test_the_command_tells_what_it_found_and_nothing_on_standard_error(treebank: Path, tmp_path: Path) -> None:
    done = command("--sst", treebank, "--output", tmp_path / "paper")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "findings of the paper that hold here" in done.stdout
    assert re.search(r"\d+ s \(reading [\d.]+, accuracy [\d.]+, .*\), at most [\d.]+ GiB of memory", done.stdout)


def test_without_sst_the_command_says_what_to_do(tmp_path: Path) -> None:
    done = command("--output", tmp_path / "paper", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 2
    assert re.fullmatch(r"whence: SST is not in .*; run 'whence data sst' to download it, or give its folder .*\n", done.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2].rstrip("\n ()")[:-1], r"test\.txt, line \d+: the tree ends before its last '\)'"),
        (lambda text: text.replace("\n(1", "\n(7", 1), r"test\.txt, line 2: column 2: '7' is not a label"),
        (lambda text: "", r"test\.txt has no trees"),
    ],
)
def test_a_damaged_file_is_named_with_its_line_and_nothing_is_written(
    treebank: Path, tmp_path: Path, damage: Any, message: str
) -> None:
    folder = tmp_path / "trees"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        text = (treebank / f"{split}.txt").read_text(encoding="utf-8")
        (folder / f"{split}.txt").write_text(damage(text) if split == "test" else text, encoding="utf-8")
    done = command("--sst", folder, "--output", tmp_path / "paper")
    assert done.returncode == 2
    assert re.search(message, done.stderr)
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["trees"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("missing/paper", r"missing is not a folder; make it first"), ("file", r"file is a file; give the name of a folder")],
)
def test_a_folder_that_cannot_be_is_refused_before_any_work(treebank: Path, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(whence.InputError, match=message):
        whence.experiments.run(sst=treebank, output=tmp_path / name)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_a_model_of_other_classes_is_refused(treebank: Path, tmp_path: Path) -> None:
    pipeline = whence.load("sst-bilstm")
    two = whence.Pipeline(pipeline.module, pipeline.tokenizer, pipeline.vocabulary, ("bad", "good"), "mine")
    with pytest.raises(whence.ModelError, match=r"mine has 2 classes; SST has five"):
        whence.experiments.run(sst=treebank, output=tmp_path / "paper", model=two)


def test_a_folder_of_an_earlier_run_is_taken_over_whole(treebank: Path, tmp_path: Path) -> None:
    output = tmp_path / "paper"
    whence.experiments.run(sst=treebank, output=output)
    (output / "mine.txt").write_text("mine", encoding="utf-8")
    short = write_treebank(tmp_path / "short", sentences=6, longest=4)
    whence.experiments.run(sst=short, output=output)
    assert not (output / "fig3_deletion.png").exists()
    assert (output / "mine.txt").exists()
    assert not [path for path in output.iterdir() if path.name.startswith(".")]
    (output / "results.json").unlink()
    (output / "results.json").mkdir()
    with pytest.raises(whence.InputError, match=r"results.json is in the way"):
        whence.experiments.run(sst=short, output=output)
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(whence.InputError, match="cannot be written to"):
            whence.experiments.run(sst=short, output=tmp_path / name)


def test_a_model_without_relevance_and_with_odd_class_names(treebank: Path, tmp_path: Path) -> None:
    pipeline = whence.load("sst-bilstm")
    module = copy.deepcopy(pipeline.module)
    with torch.no_grad():
        cast(Any, module).head.weight.zero_()
    names = ("$\\frac$", "<b>", "$5 to $10", "\u202e", "x" * 300)
    odd = whence.Pipeline(module, pipeline.tokenizer, pipeline.vocabulary, names, "odd")
    results = whence.experiments.run(sst=treebank, output=tmp_path / "paper", model=odd)
    assert results["fig4"]["lrp"] == {}
    page = (tmp_path / "paper" / "report.html").read_text(encoding="utf-8")
    assert "The model calls its classes" in page
    assert "<b>," not in page


def test_pictures_take_any_word() -> None:
    hostile = whence.explain(whence.load("sst-bilstm"), [("$", "$x$", "\x1b[31m", "\\frac", "字", "a" * 300)])[0]
    drawn = figure.heatmaps([("<b>", [figure.HeatmapRow(1, "+", "−", hostile)])], title="$x$")
    assert figure.files("x", drawn)["x.png"].startswith(b"\x89PNG")


def test_the_papers_word_lists_are_ten_words_each() -> None:
    assert all(len(set(words)) == 10 for lists in TABLE1.values() for words in lists)


def test_sst_gives_the_papers_counts_and_most_of_its_findings(sst: Path, tmp_path: Path) -> None:
    results = whence.experiments.run(sst=sst, output=tmp_path / "paper")
    assert list(results["counts"].values()) == [2210, 1849, 1104]
    assert results["data"]["is_official"]
    assert results["accuracy"]["five"] == pytest.approx(0.508, abs=5e-4)
    assert results["accuracy"]["binary"] == pytest.approx(0.882, abs=5e-4)
    right, wrong = results["fig3"]["correct"], results["fig3"]["wrong"]
    assert right["lrp"][-1] <= 0.15
    assert wrong["lrp"][-1] >= 0.40
    assert wrong["sa"][-1] < wrong["random"][-1]
    verdicts = {finding["claim"]: finding["holds"] for finding in results["findings"]}
    assert not [claim for claim, holds in verdicts.items() if not holds and "second half" not in claim]
    shown = {word for each in results["heatmaps"]["sentences"] for word in each["words"]}
    assert shown >= set(DISCUSSED)
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    for side in ("correct", "wrong"):
        last = {method: f"{curve[-1]:.3f}".lstrip("0") for method, curve in results["fig3"][side].items()}
        assert f"LRP {last['lrp']}, SA {last['sa']}, random {last['random']}" in readme
    for end in ("most", "least"):
        assert ", ".join(results["table1"]["lrp"][end][:5]) in readme
    assert f"{sum(verdicts.values())} of the {len(verdicts)} tested claims hold" in readme
    assert len(results["heatmaps"]["sentences"]) == 21
