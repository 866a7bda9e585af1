"""The paper recomputed: on a small treebank that the test writes itself, and on SST where it is available."""

import copy
import csv
import io
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import whence
from whence.cli.main import main
from whence.experiments import fig3_deletion, paper, reproduction, test_set
from whence.experiments.methods import methods_of, names_of
from whence.experiments.published import DISCUSSED, LINES, TABLE1
from whence.experiments.test_set import TestSet, backward_size, forward_size
from whence.methods.gradient_input import GradientXInput
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
    names |= {"table1.csv", "fig3.csv", "fig4.csv", "findings.csv"}
    assert {path.name for path in output.iterdir()} == names
    for name in names:
        start = (output / name).read_bytes()[:5]
        assert (
            start
            == {"png": b"\x89PNG\r", "pdf": b"%PDF-", "html": b"<!DOC", "json": b'{\n "w', "csv": b"model"}[
                name.rsplit(".")[-1]
            ]
        )
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


@dataclass(frozen=True)
class Backwards(GradientXInput):
    """A method of the user's own."""

    name = "backwards"
    label = "backwards"
    times: int = 1


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path, list[tuple[str, int, int]]]:
    """Two models, one of them of characters, a further method, and LRP's settings changed."""
    folder = tmp_path_factory.mktemp("several")
    trees = write_treebank(folder / "trees", sentences=7, longest=22)
    seen: list[tuple[str, int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure, "heatmaps", lambda groups, title: figure.Figure())  # drawn in `made`, and slowly
        for module in (reproduction, fig3_deletion):
            patch.setattr(module, "RANDOM_RUNS", 2)
        made = whence.experiments.run(
            sst=trees,
            output=folder / "paper",
            model=["sst-char-gru", whence.load("sst-bilstm")],
            methods=[Backwards(), "gi", "lrp"],
            epsilon=0.01,
            delta=1.0,
            progress=lambda *given: seen.append(given),
        )
    return cast(dict[str, Any], made), folder / "paper", seen


def test_a_model_of_characters_is_measured_by_its_words(several: tuple[dict[str, Any], Path, Any]) -> None:
    assert several[0]["model"]["name"] == "sst-char-gru"
    assert all(len(word) > 1 for word in several[0]["table1"]["lrp"]["most"][:3])


def test_several_models_stand_side_by_side(several: tuple[dict[str, Any], Path, Any]) -> None:
    results, output, _ = several
    (other,) = results["other_models"]
    assert set(results) - set(other) == {"other_models"}
    assert other["model"]["name"] == "sst-bilstm"
    assert [finding["claim"] for finding in other["findings"]] == [finding["claim"] for finding in results["findings"]]
    page = (output / "report.html").read_text(encoding="utf-8")
    assert "<th>sst-char-gru</th><th>sst-bilstm</th>" in page
    assert page.count("data:image/png") == 2 * 3
    assert "figures ending in <code>-2</code>" in page
    first, second = ({path.stem for path in output.glob(f"*{end}.png")} for end in ("[!2]", "-2"))
    assert second == {f"{name}-2" for name in first}
    assert (output / "confusion.png").read_bytes() != (output / "confusion-2.png").read_bytes()


def test_progress_of_every_model_ends(several: tuple[dict[str, Any], Path, list[tuple[str, int, int]]]) -> None:
    seen = several[2]
    parts = list(dict.fromkeys(part for part, _, _ in seen))
    one = "accuracy explanations table 1 fig. 3 fig. 4 findings figures".replace("table 1", "table_1").replace("fig. ", "fig._")
    named = [part.replace("_", " ") for part in one.split()]
    assert parts == ["reading", *(f"{model}: {part}" for model in ("sst-char-gru", "sst-bilstm") for part in named)]
    for part in parts:
        done = [(each, total) for name, each, total in seen if name == part]
        assert done[0][0] == 0
        assert done[-1][0] == done[-1][1]
        assert [each for each, _ in done] == sorted(each for each, _ in done)


def test_further_methods_are_in_fig_3_table_1_and_the_heatmaps(several: tuple[dict[str, Any], Path, Any]) -> None:
    results, output, _ = several
    assert results["methods"] == {
        "sa": "SensitivityAnalysis()",
        "lrp": repr(whence.LRP(epsilon=0.01, delta=1.0)),
        "lrp_cons": repr(whence.LRP(epsilon=0.01, delta=1.0)),
        "gi": "GradientXInput()",
        "backwards": "Backwards(times=1)",
    }
    for side in ("correct", "wrong"):
        assert results["fig3"][side].get("backwards") == results["fig3"][side].get("gi")
    assert len(results["table1"]["backwards"]["most"]) == 10
    assert "backwards" not in results["table1"]["overlap"]
    assert all(len(each["others"]["backwards"]) == len(each["words"]) for each in results["heatmaps"]["sentences"])
    assert (output / "heatmaps_backwards.png").exists()
    page = (output / "report.html").read_text(encoding="utf-8")
    assert "The same sentences by backwards" in page
    assert "LRP is run here as <code>LRP(epsilon=0.01, delta=1.0" in page
    better = [each for each in results["findings"] if "than LRP_cons" in each["claim"]]
    assert [each["detail"] for each in better] == ["LRP was run with δ = 1 here, which is LRP_cons"] * 2


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def test_tables_have_the_numbers_of_results(several: tuple[dict[str, Any], Path, Any]) -> None:
    results, output, _ = several
    for model in (results, *results["other_models"]):
        table1, fig3, fig4, findings = (
            [row for row in rows_of(output / f"{name}.csv") if row["model"] == model["model"]["name"]]
            for name in ("table1", "fig3", "fig4", "findings")
        )
        for method in ("sa", "lrp", "backwards"):
            own = [row for row in table1 if (row["target"], row["method"], row["end"]) == ("very positive", method, "least")]
            assert [row["word"] for row in own] == model["table1"][method]["least"]
            assert [float(row["relevance"]) for row in own] == model["table1"][method]["least_relevance"]
            shared = [row["word"] for row in own if row["in_paper"] == "yes"]
            assert shared == model["table1"]["overlap"].get(method, {"least": []})["least"]
        for side in ("correct", "wrong"):
            for method, curve in model["fig3"][side].items():
                own = [row for row in fig3 if (row["panel"], row["method"]) == (side, method)]
                assert [float(row["accuracy"]) for row in own] == curve
                assert [float(row["low"]) for row in own] == model["fig3"]["bands"][side][method][0]
        shares = [float(row["share"]) for row in fig4 if (row["method"], row["encoder"]) == ("lrp", "total")]
        assert shares == [share for own in model["fig4"]["lrp"]["total"].values() for share in own]
        assert [row["claim"] for row in findings] == [finding["claim"] for finding in model["findings"]]
        verdicts = {"yes": True, "no": False, "undecided": None}
        assert [verdicts[row["holds"]] for row in findings] == [finding["holds"] for finding in model["findings"]]


def test_data_without_the_papers_sentences_says_so(made: tuple[dict[str, Any], Path]) -> None:
    results, output = made
    assert results["heatmaps"]["missing"]["1"] == "the test file has no line 2089"
    assert len(results["heatmaps"]["missing"]) == 21
    assert not any(each["in_paper"] for each in results["heatmaps"]["sentences"])
    page = (output / "report.html").read_text(encoding="utf-8")
    assert "The paper&#39;s 21 sentences are not in this data: the test file has no line 2089, and so on." in page
    waste = next(each for each in results["findings"] if each["claim"] == 'LRP makes "waste" red in sentence 1')
    assert (waste["holds"], waste["detail"]) == (None, "the test file has no line 2089")


def test_methods_that_are_there_already_or_cannot_be_added() -> None:
    assert list(methods_of(further=["gi", "sa", "lrp"])) == ["sa", "lrp", "lrp_cons", "gi"]
    by_chance = dataclass(frozen=True)(type("Chance", (Backwards,), {"name": "random"}))()
    assert list(methods_of(further=[by_chance])) == ["sa", "lrp", "lrp_cons", "gi"]  # Fig. 3 has random deletion already
    added = methods_of(epsilon=0.5, delta=0.25, further=[Backwards(times=2)])
    assert added["lrp"] == whence.LRP(epsilon=0.5, delta=0.25)
    assert added["lrp_cons"] == whence.LRP(epsilon=0.5, delta=1.0)
    assert names_of(added)["backwards"] == "backwards"
    with pytest.raises(whence.InputError, match=r"LRP\(epsilon=0.1.* cannot be added: the report has LRP\(epsilon=0.001"):
        methods_of(further=[whence.LRP(epsilon=0.1)])
    with pytest.raises(whence.InputError, match="under the name 'backwards'"):
        methods_of(further=[Backwards(), Backwards(times=2)])
    with pytest.raises(whence.InputError, match="method is 'no-such-method'; give a method"):
        methods_of(further=["no-such-method"])
    with pytest.raises(whence.InputError, match=r"methods is 'gi'; give a list of methods"):
        methods_of(further="gi")
    with pytest.raises(whence.InputError, match=r"a method is called 'a/b'; files are named after it"):
        methods_of(further=[dataclass(frozen=True)(type("Odd", (Backwards,), {"name": "a/b"}))()])


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


def test_the_command_tells_what_it_found_and_nothing_on_standard_error(tmp_path: Path) -> None:
    trees = write_treebank(tmp_path / "trees", sentences=6, longest=12)
    done = command("--sst", trees, "--output", tmp_path / "paper", "--epsilon", "0.1", "--method", "gi")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert re.search(r"findings of the paper that hold here: \d+ of 62, \d+ undecided\n", done.stdout)
    assert re.search(r"\d+ s \(reading [\d.]+, accuracy [\d.]+, .*\), at most [\d.]+ GiB of memory", done.stdout)


def test_without_sst_the_command_says_what_to_do(tmp_path: Path) -> None:
    done = command("--output", tmp_path / "paper", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 2
    assert re.fullmatch(r"whence: SST is not in .*; run 'whence data sst' to download it, or give its folder .*\n", done.stderr)
    assert list(tmp_path.iterdir()) == []


Called = Callable[..., tuple[int, str]]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """`whence paper` in this process: its exit code and standard error."""

    def call(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["whence", "paper", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return cast(int, end.value.code), capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2].rstrip("\n ()")[:-1], r"test\.txt, line \d+: the tree ends before its last '\)'"),
        (lambda text: text.replace("\n(1", "\n(7", 1), r"test\.txt, line 2: column 2: '7' is not a label"),
        (lambda text: "", r"test\.txt has no trees"),
    ],
)
def test_a_damaged_file_is_named_with_its_line_and_nothing_is_written(
    treebank: Path, tmp_path: Path, called: Called, damage: Any, message: str
) -> None:
    folder = tmp_path / "trees"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        text = (treebank / f"{split}.txt").read_text(encoding="utf-8")
        (folder / f"{split}.txt").write_text(damage(text) if split == "test" else text, encoding="utf-8")
    code, stderr = called("--sst", folder, "--output", tmp_path / "paper")
    assert code == 2
    assert re.search(message, stderr)
    assert stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["trees"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--epsilon -1", "epsilon is -1.0; a stabiliser must be a finite number ≥ 0, such as 0.001"),
        ("--epsilon nan", "epsilon is nan; a stabiliser must be"),
        ("--epsilon 1e308", "the relevance is not finite"),
        ("--delta 1.5", "delta is 1.5; the part of a bias that is shared out lies between 0 and 1"),
        ("--delta half", r"'half'.*; see whence paper --help"),
        ("--method guess", r"'guess' is not one of 'lrp', 'sa'.*; see whence paper --help"),
        ("--model sst-gpt", "there is no model 'sst-gpt'; bundled are sst-bilstm"),
        ("--model sst-bilstm --model river-lstm", "'river-lstm' reads series of numbers, not texts"),
        ("--model sst-bilstm --model sst-bilstm", "2 models are called sst-bilstm; give models of different names"),
    ],
)
def test_bad_values_get_one_sentence_and_nothing_is_written(
    treebank: Path, tmp_path: Path, called: Called, arguments: str, message: str
) -> None:
    code, stderr = called("--sst", treebank, "--output", tmp_path / "paper", *arguments.split())
    assert code == 2
    assert re.search(message, stderr)
    assert stderr.startswith("whence: ")
    assert stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("stopped", "models", "is_there"),
    [
        ("fig. 3", ["sst-char-gru"], False),
        ("sst-char-gru: explanations", ["sst-bilstm", "sst-char-gru"], True),
        ("writing", ["sst-bilstm"], False),
        ("writing", ["sst-bilstm"], True),
    ],
)
def test_an_interrupt_is_one_line_and_leaves_nothing(
    tmp_path: Path, called: Called, monkeypatch: pytest.MonkeyPatch, stopped: str, models: list[str], is_there: bool
) -> None:
    trees = write_treebank(tmp_path / "trees", sentences=3, longest=12)
    output = tmp_path / "paper"
    if is_there:
        output.mkdir()
        (output / "report.html").write_text("of an earlier run", encoding="utf-8")
    inner, write_bytes = paper.Clock, Path.write_bytes

    class Stopping(inner):
        def __init__(self, progress: Any, prefix: str = "") -> None:
            def stop(part: str, done: int, total: int) -> None:
                progress(part, done, total)
                if part == stopped and done:
                    raise KeyboardInterrupt

            super().__init__(stop, prefix)
            self.progress = stop if not prefix else progress

    def stopped_write(path: Path, content: bytes) -> int:
        if stopped == "writing" and path.name == "report.html":
            write_bytes(path, content[:100])
            raise KeyboardInterrupt
        return write_bytes(path, content)

    monkeypatch.setattr(figure, "heatmaps", lambda groups, title: figure.Figure())
    monkeypatch.setattr(paper, "Clock", Stopping)
    monkeypatch.setattr(Path, "write_bytes", stopped_write)
    given = [word for model in models for word in ("--model", model)]
    assert called("--sst", trees, "--output", output, *given) == (130, "whence: stopped\n")
    assert {path.name for path in tmp_path.iterdir()} == {"trees", *(["paper"] if is_there else [])}
    if is_there:
        assert [path.name for path in output.iterdir()] == ["report.html"]
        assert (output / "report.html").read_text(encoding="utf-8") == "of an earlier run"


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


def test_a_folder_of_an_earlier_run_is_taken_over_whole(made: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    output = tmp_path / "paper"
    shutil.copytree(made[1], output)
    for name in ("fig3_deletion-2.png", "heatmaps_ig.pdf", "confusion-12.pdf"):
        (output / name).write_bytes(b"of a run with several models and methods")
    (output / "mine.txt").write_text("mine", encoding="utf-8")
    short = write_treebank(tmp_path / "short", sentences=6, longest=4)
    whence.experiments.run(sst=short, output=output)
    assert not list(output.glob("fig3_deletion*"))
    assert not [*output.glob("heatmaps*"), *output.glob("*-12.pdf")]
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


HALVES = ("very negative", "negative", "positive")


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
    differing = [claim for claim, holds in verdicts.items() if not holds]
    assert differing == [
        *(f'By LRP, most relevance for "{name}" lies in the second half of the sentence' for name in HALVES),
        "LRP falls a little more steeply than LRP_cons where the model was right",
        "By LRP, the left encoder's curve is smoother than the right encoder's",
        'By SA, the distribution for "neutral" is almost symmetric: within 10% of its mirror image',
        "By SA, the left encoder's curve is smoother than the right encoder's",
        'LRP makes "suspenseful" blue in sentence 2',
        'LRP makes "fails" blue in sentence 21',
        'LRP explains why sentence 21 is classified wrongly: "fails" misled the model',
    ]
    assert all(finding["differs"] for finding in results["findings"] if not finding["holds"])
    fails = next(each for each in results["findings"] if each["claim"] == 'LRP makes "fails" blue in sentence 21')
    assert fails["differs"] == 'here it is red, not blue: with +0.53 it speaks for "very positive"'
    shown = {word for each in results["heatmaps"]["sentences"] for word in each["words"]}
    assert shown >= set(DISCUSSED)
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    for side in ("correct", "wrong"):
        last = {method: f"{curve[-1]:.3f}".lstrip("0") for method, curve in results["fig3"][side].items()}
        assert f"LRP {last['lrp']}, SA {last['sa']}, random {last['random']}" in readme
    for end in ("most", "least"):
        assert ", ".join(results["table1"]["lrp"][end][:5]) in readme
    assert f"{sum(verdicts.values())} of the {len(verdicts)} tested claims hold" in readme
    sentences = results["heatmaps"]["sentences"]
    assert [each["number"] for each in sentences] == list(range(1, 43))
    assert [each["line"] for each in sentences[:21]] == list(LINES)
    assert [each["in_paper"] for each in sentences] == [True] * 21 + [False] * 21
    assert results["heatmaps"]["missing"] == {}
    page = (tmp_path / "paper" / "report.html").read_text(encoding="utf-8")
    assert "pins down 1–3, 5, 6, 9, 11, 12, 14, 16–21 by words and class; 4, 7, 8, 10, 13, 15 are as remembered" in page
