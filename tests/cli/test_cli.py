"""The command: what it prints, what it refuses, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TEXT = "neither funny nor suspenseful nor particularly well-drawn ."
WHENCE = [sys.executable, "-m", "whence"]


def run(*args: str, stdin: bytes | None = None, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*WHENCE, *args],
        input=stdin if stdin is not None else b"",
        capture_output=True,
        timeout=300,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", **env},
        check=False,
    )
    return subprocess.CompletedProcess(args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["explain"],
        ["phrases"],
        ["paper"],
        ["train"],
        ["bench"],
        ["models"],
        ["data", "sst"],
        ["summarize"],
        ["import"],
        ["corpus", "explain"],
        ["corpus", "words"],
    ],
)
def test_help_needs_no_torch(command: list[str]) -> None:
    code = "import sys\nfrom whence.cli.main import main\ntry: main()\nexcept SystemExit as end: assert not end.code\n"
    code += "slow = {'torch', 'numpy', 'rich', 'nltk', 'matplotlib'} & set(sys.modules)\nassert not slow, slow"
    given = [sys.executable, "-c", code, *command, "--help"]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Usage: {' '.join(['whence', *command])} [OPTIONS]" in done.stdout


def test_json_has_its_keys_and_balances() -> None:
    done = run("explain", TEXT, "good", "--format", "json")
    assert done.returncode == 0, done.stderr
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert list(first) == [
        "text", "tokens", "relevance", "scores", "predicted", "target", "method", "rules", "absorbed", "model",
        "score", "unknown", "spans",
    ]  # fmt: skip
    assert first["text"] == TEXT
    assert first["method"]["name"] == "lrp"
    assert first["method"]["epsilon"] == 1e-3
    assert len(first["tokens"]) == len(first["relevance"]) == 8
    for found in (first, second):
        total = sum(found["relevance"]) + sum(found["absorbed"].values())
        assert total == pytest.approx(found["scores"][found["target"]], abs=1e-4)


@pytest.mark.parametrize(("versus", "shown"), [("rest", "the rest"), ("negative", "negative"), ("1", "negative")])
def test_a_class_versus_another(versus: str, shown: str) -> None:
    line = run("explain", "not a waste of time", "--target", "positive", "--versus", versus, "--format", "json").stdout
    found = json.loads(line)
    assert (found["target"], found["versus"]) == ("positive", shown.removeprefix("the "))
    assert sum(found["relevance"]) + sum(found["absorbed"].values()) == pytest.approx(found["score"], abs=1e-5)
    text = run("explain", "not a waste of time", "--target", "positive", "--versus", versus).stdout
    assert f"LRP (ε = 0.001, δ = 0) for positive versus {shown}, score {found['score']:+.3f}" in text


def test_red_and_blue_words() -> None:
    done = run("explain", TEXT, FORCE_COLOR="1", COLORTERM="truecolor", TERM="xterm-256color")
    assert done.returncode == 0, done.stderr
    colours = {tuple(map(int, c)) for c in re.findall(r"48;2;(\d+);(\d+);(\d+)", done.stdout)}
    assert any(red > blue + 50 for red, _, blue in colours)
    assert any(blue > red + 30 for red, _, blue in colours)


def test_files_standard_input_and_several_methods(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("good film\n\nbad film\n", encoding="utf-8")
    found = [
        json.loads(line)
        for line in run("explain", "--file", str(tmp_path / "texts.txt"), "--format", "json").stdout.splitlines()
    ]
    assert [each["text"] for each in found] == ["good film", "bad film"]
    both = run("explain", "--method", "lrp", "--method", "sa", "--format", "json", stdin=b"good film\nbad film\n")
    names = [(each["text"], each["method"]["name"]) for each in map(json.loads, both.stdout.splitlines())]
    assert names == [("good film", "lrp"), ("good film", "sa"), ("bad film", "lrp"), ("bad film", "sa")]
    everything = run("explain", "good film", "--target", "all", "--format", "json")
    assert json.loads(everything.stdout.splitlines()[0])["target"] == "very negative"
    assert len(everything.stdout.splitlines()) == 5


@pytest.mark.parametrize("format", ["html", "latex", "svg", "json", "terminal"])
def test_output_files_appear_whole(tmp_path: Path, format: str) -> None:
    done = run("explain", TEXT, "--format", format, "--output", str(tmp_path / "out"), "--model", "sst-bigru", "--target", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "suspenseful" in (tmp_path / "out").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("explain", ""), "the text is empty"),
        (("explain", "good", "--model", "sst-gpt"), "there is no model 'sst-gpt'; bundled are sst-bilstm"),
        (
            ("explain", "good", "--model", "river-lstm"),
            "'river-lstm' reads series of numbers, not texts; explain it with whence.explain_series in Python, or on the page",
        ),
        (("explain", "good", "--target", "great"), "there is no class 'great'; sst-bilstm knows very negative"),
        (("explain", "good", "--target", "9"), "target 9 does not exist"),
        (("explain", "--file", "no-such-file"), "no-such-file cannot be read: No such file or directory"),
        (("explain", "--file", "."), "cannot be read: Is a directory"),
        (("explain", "--file", sys.executable), "is not UTF-8 text|is a binary file"),
        (("explain", "good", "--epsilon", "-1"), "epsilon is -1.0; a stabiliser must be"),
        (("explain", "good", "bad", "--format", "svg"), "an SVG image shows one explanation, but there are 2"),
        (("explain", "good", "--output", "no/such/folder/x"), "is not a folder; make it first"),
        (("explain", "good", "--output", "/"), "/ is a folder; give the name of a file"),
        (("explain", "good", "--model", "no.such.module:factory"), "cannot be imported"),
        (("explain", "good", "--model", "json:loads"), "'json:loads' failed: TypeError"),
        (("explain", "good", "--model", "../json:loads"), r"'\.\./json:loads' is no package\.module:factory, such as"),
        (("explain", "good", "--model", "json:lords"), "'json:lords' cannot be used: json has no 'lords'"),
        (("explain",), "there is no text: all lines are empty"),
        (("explain", "good", "--target", "²"), "there is no class '²'"),
        (("explain", "good", "--model", "x" * 300), "there is no model|File name too long"),
        (("explain", "good", "--epsilon", "1e308"), "the relevance is not finite"),
        (("explain", "good", "--model", "no\n\x1b[31mmodel"), "there is no model 'no\\\\n"),
        (
            ("explain", "good", "--format", "pdf"),
            "'--format': 'pdf' is not one of 'terminal', 'html'.*see whence explain --help",
        ),
        (("explain", "good", "--epsilon", "abc"), "'abc'.*'--epsilon'|'--epsilon'.*'abc'"),
        (("explain", "good", "--epsilno", "1"), "--epsilno.*--epsilon"),
        (("explain", "good", "--epsilon"), "'--epsilon' requires an argument; see whence explain --help"),
        (("bench", "--repeats", "1"), "1.*'--repeats'.*3; see whence bench --help|'--repeats'.*1.*3; see whence bench --help"),
        (("explian", "good"), "No such command 'explian'. Did you mean 'explain'. See whence --help"),
        (("train",), "Missing option '--output'; see whence train --help"),
        (("data",), "Missing command; see whence data --help"),
        (("train", "--output", "x", "--sst", "nowhere"), "SST is not in nowhere"),
    ],
)
def test_a_wrong_call_gets_a_line_and_exit_code_2(args: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = run(*args, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert re.search(message, done.stderr.replace("\n", " "))
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


def test_a_model_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import whence\ndef factory():\n    return whence.load('sst-bigru')\n", encoding="utf-8")
    done = run("explain", "good", "--model", "mine:factory", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"] == "sst-bigru"


def test_hostile_text_on_the_terminal() -> None:
    done = run("explain", "\x1b]0;title\x07 <script> \u202e 😀 שלום", NO_COLOR="1")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert "<script>" in re.sub(r"[][+°-]", "", done.stdout)


def test_paths_and_class_names_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    code = "import whence, dataclasses\n"
    code += "names = (chr(27) + '[31mred', chr(0x202E) + 'turned', 'c', 'd', 'e')\n"
    code += "def factory():\n    return dataclasses.replace(whence.load('sst-bigru'), classes=names)\n"
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    done = run("explain", "good", "--model", "mine:factory", "--target", "all", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not re.search("[\x1b\u202e]", done.stdout)
    assert "␛[31mred: relevance" in done.stdout
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("(4 (3 good) (2 film))\n(0 (1 bad) (2 film))\n" * 3, encoding="utf-8")
    trained = run("train", "--sst", str(tmp_path), "--epochs", "1", "--output", "a\x1b[31mb", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert trained.stdout.splitlines()[-1] == "saved in a␛[31mb"


def test_links_are_followed_and_devices_written_to(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old", encoding="utf-8")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    assert run("explain", "good", "--format", "json", "--output", str(tmp_path / "link.json")).returncode == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text(encoding="utf-8"))["text"] == "good"
    full = run("explain", "good", "--format", "json", "--output", "/dev/full")
    assert full.returncode == 1
    assert full.stderr == "whence: /dev/full cannot be written: No space left on device\n"
    assert Path("/dev/full").is_char_device()


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line with its redirections in bash; `whence` is the command."""
    given = f'set -o pipefail; whence() {{ "{sys.executable}" -m whence "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", given], capture_output=True, text=True, timeout=300, check=False, cwd=cwd, env=os.environ
    )


def test_a_file_keeps_its_mode_and_a_new_one_gets_the_umask(tmp_path: Path) -> None:
    code = "from pathlib import Path; from whence.models.files import write_whole\n"
    code += "for name in ('private', 'script', 'new', '😀' * 60): write_whole(Path(name), b'x')"
    for name, mode in (("private", 0o600), ("script", 0o775)):
        (tmp_path / name).write_bytes(b"old")
        (tmp_path / name).chmod(mode)
    done = subprocess.run(["sh", "-c", 'umask 027; "$0" -c "$1"', sys.executable, code], cwd=tmp_path, check=False)
    assert done.returncode == 0
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"private": 0o600, "script": 0o775, "new": 0o640, "😀" * 60: 0o640}
    assert (tmp_path / "private").read_bytes() == b"x"


def test_streams_and_pipes_are_written_to_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("first\n", encoding="utf-8")
    done = shell("whence explain good --format json --output /dev/stdout >> log", tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert first == "first" and json.loads(second)["text"] == "good"
    for line in (
        "whence explain good --format json --output /dev/stdout | cat",
        "whence explain good --format json --output /dev/stderr 2>&1 | cat",
        "mkfifo pipe; cat pipe & whence explain good --format json --output pipe && wait",
    ):
        done = shell(line, tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["text"] == "good"
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("whence explain <&-", 2, "whence: there is no text: all lines are empty\n"),
        ("whence models >&-", 1, "whence: standard output is closed, so nothing can be printed.*\n"),
        ("whence --help >&-", 1, "whence: standard output is closed, so nothing can be printed.*\n"),
        ("whence explain good --format json >&-", 1, "whence: standard output is closed, so nothing can be printed.*\n"),
        ("whence explain good --output /dev/stdout >&-", 1, "whence: /dev/stdout cannot be written: Bad file descriptor\n"),
        ("whence explain good --output here >&- && rm here", 0, ""),
        ("whence models > /dev/full", 1, "whence: the output cannot be written: No space left on device; make room.*\n"),
        ("whence explain good --format json > /dev/full", 1, "whence: the output cannot be written: No space left on.*\n"),
        ("whence explain '' 2>&-", 2, ""),
        ("whence models | true", 0, ""),
        ("whence explain good --format json | true", 0, ""),
    ],
)
def test_closed_streams_end_in_a_line_and_a_code(line: str, code: int, message: str, tmp_path: Path) -> None:
    done = shell(line, tmp_path)
    assert done.returncode == code, done.stderr
    assert re.fullmatch(message, done.stderr)
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


def is_reading(pid: int) -> bool:
    """Whether a process waits for its input: its current system call has descriptor 0. True where the kernel does not tell."""
    try:
        return Path(f"/proc/{pid}/syscall").read_text(encoding="utf-8").split()[1:2] == ["0x0"]
    except OSError:
        return True


def wait_for_rest(pid: int) -> None:
    """Wait until a process has slept for a second on its input; before that, an import may swallow an interrupt."""
    seen: list[list[str]] = []
    while len(seen) < 10 or any(each != seen[-1] or each[0] != "S" for each in seen[-10:]) or not is_reading(pid):
        time.sleep(0.1)
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        seen.append([fields[0], *fields[11:13]])  # its state, and the time it had of the processor


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux tells what a process is doing")
def test_an_interrupt_is_no_success() -> None:
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from whence.cli.main import main; main()"
    given = [sys.executable, "-c", code, "explain"]  # a shell starts background processes with interrupts ignored
    process = subprocess.Popen(given, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_for_rest(process.pid)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.decode().splitlines() == ["whence: stopped"]


@pytest.mark.parametrize(
    ("command", "work"),
    [
        ("train --output x --sst .", "whence.training.sst.train_sst"),
        ("paper --output x --sst .", "whence.experiments.paper.run"),
        ("bench", "whence.speed.ratios.speed"),
        ("data sst", "whence.data.download.download_sst"),
        ("models", "whence.models.bundled.records"),
    ],
)
def test_every_command_stops_with_130(command: str, work: str, tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("(4 (3 good) (2 film))\n", encoding="utf-8")
    module, name = work.rsplit(".", 1)
    code = f"import importlib; module = importlib.import_module({module!r})\n"
    code += f"def stop(*args, **settings): raise KeyboardInterrupt\nmodule.{name} = stop\n"
    code += "from whence.cli.main import main; main()"
    given = [sys.executable, "-c", code, *command.split()]
    done = subprocess.run(given, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "whence: stopped\n"


def test_models_lists_figures() -> None:
    found = run("models").stdout
    assert "sst-bilstm" in found
    assert "50.8 %" in found
    assert re.search(r"river-lstm +rain, temperature, sunshine +lstm +3/32 +0\.98 +0\.95 +0\.62$", found, re.MULTILINE)


def test_training_goes_on_after_a_kill(tmp_path: Path) -> None:
    """A run that is stopped after its first epoch and resumed ends with the same weights as an uninterrupted one."""
    trees = [
        "(4 (3 good) (2 film))",
        "(0 (1 bad) (2 film))",
        "(2 (2 a) (2 film))",
        "(3 (2 not) (1 bad))",
        "(1 (2 not) (3 good))",
    ] * 3
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("\n".join(trees) + "\n", encoding="utf-8")
    common = ("--sst", str(tmp_path), "--seed", "3", "--cell", "gru")
    assert run("train", *common, "--epochs", "3", "--output", str(tmp_path / "whole")).returncode == 0
    code = (
        "from pathlib import Path; import os, signal\n"
        "from whence.training.trainer import Trainer; from whence.training.sst import train_sst\n"
        "write = Trainer.write\n"
        "def killed(self, path):\n    write(self, path)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "Trainer.write = killed\n"
        f"train_sst(Path({str(tmp_path)!r}), Path({str(tmp_path / 'cut')!r}), cell='gru', seed=3, epochs=3)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == -9
    assert {path.name for path in (tmp_path / "cut").iterdir()} == {"checkpoint.safetensors", ".lock"}
    other = run("train", *common, "--epochs", "4", "--output", str(tmp_path / "cut"))
    assert len(other.stderr.splitlines()) == 1
    assert other.returncode == 2
    assert "was written by a run with other settings" in other.stderr
    done = run("train", *common, "--epochs", "3", "--output", str(tmp_path / "cut"))
    assert done.returncode == 0, done.stderr
    assert "% of five classes" in done.stdout
    assert (tmp_path / "cut" / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert not (tmp_path / "cut" / "checkpoint.safetensors").exists()
    again = run("train", *common, "--epochs", "3", "--output", str(tmp_path / "cut"))
    assert again.returncode == 2
    assert "contains a finished model; choose another folder" in again.stderr
    found = run("explain", "good film", "--model", str(tmp_path / "cut"), "--format", "json")
    assert json.loads(found.stdout)["tokens"] == ["good", "film"]


def test_vectors_and_characters(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("(4 (3 good) (2 film))\n(0 (1 bad) (2 film))\n" * 20, encoding="utf-8")
    (tmp_path / "vectors.txt").write_text("good 1 2 3\nbad -1 0 2\nzebra 0 0 1\n", encoding="utf-8")
    common = ("train", "--sst", str(tmp_path), "--epochs", "1")
    done = run(*common, "--vectors", str(tmp_path / "vectors.txt"), "--output", str(tmp_path / "a"))
    assert done.returncode == 0, done.stderr
    assert "zebra" in (tmp_path / "a" / "vocabulary.txt").read_text(encoding="utf-8")
    record = json.loads((tmp_path / "a" / "config.json").read_text(encoding="utf-8"))["training"]
    assert {"data", "recipe", "dev", "test", "seconds", "vectors"} <= set(record)
    (tmp_path / "broken.txt").write_text("good one two\n", encoding="utf-8")
    broken = run(*common, "--vectors", str(tmp_path / "broken.txt"), "--output", str(tmp_path / "b"))
    assert broken.returncode == 2
    assert "does not contain word vectors" in broken.stderr
    characters = run(*common, "--level", "char", "--output", str(tmp_path / "c"))
    assert characters.returncode == 0, characters.stderr


def test_bench_refuses_a_device_it_does_not_know() -> None:
    done = run("bench", "--device", "abacus")
    assert done.returncode == 2
    assert "device is 'abacus'" in done.stderr


def test_doctor_says_which_path_and_why() -> None:
    done = run("doctor", WHENCE_COMPILED="0")
    assert done.returncode == 0, done.stderr
    assert "nn.LSTM on the CPU, float32: plain (WHENCE_COMPILED is 0)" in done.stdout


def test_characters_are_added_up_to_words() -> None:
    given = ("explain", "not funny", "--model", "sst-char-gru", "--format", "json")
    letters, words = (json.loads(run(*given, *more).stdout) for more in ((), ("--by-word",)))
    assert words["tokens"] == ["not", "funny"]
    assert words["relevance"] == pytest.approx([sum(letters["relevance"][:4]), sum(letters["relevance"][4:])])


def test_any_setting_of_a_method_can_be_given_by_name() -> None:
    by_name = run("explain", "good", "--set", "stabiliser=absorbed", "--set", "epsilon=3", "--format", "json")
    found = json.loads(by_name.stdout)
    assert (found["method"]["stabiliser"], found["method"]["epsilon"]) == ("absorbed", 3)
    of_head = json.loads(run("explain", "good", "--set", "head=alpha-beta", "--set", "alpha=3", "--format", "json").stdout)
    assert (of_head["method"]["head"], of_head["method"]["alpha"]) == ("alpha-beta", 3)
    for wrong in ("sigma=1", "epsilon"):
        done = run("explain", "good", "--set", wrong)
        assert done.returncode == 2
        assert "lrp has the settings epsilon, delta, stabiliser, product, strict, head, gamma, alpha; give one" in done.stderr
    assert "--method sa has no settings" in run("explain", "good", "--method", "sa", "--set", "epsilon=1").stderr


def test_methods_that_perturb_by_name_and_setting() -> None:
    settings = ("--set", "steps=8", "--set", "samples=4", "--set", "baseline=0.5")
    done = run("explain", "neither good", "--method", "ig", "--method", "shapley", *settings, "--format", "json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["method"]["name"] for each in found] == ["ig", "shapley"]
    assert found[0]["method"]["steps"] == 8 and found[1]["method"]["samples"] == 4 and found[1]["method"]["baseline"] == 0.5
    for each in found:
        assert abs(sum(each["relevance"]) + sum(each["absorbed"].values()) - each["score"]) < 1e-4  # single precision
    shown = run("explain", "neither good", "--method", "ig", "--method", "shapley", "--method", "occlusion").stdout
    assert "Integrated Gradients (steps = 64, tolerance = 0.01) for" in shown
    assert "Shapley values (samples = 64, seed = 0) for" in shown
    assert "occlusion (window = 1) for" in shown
    sums = " ".join(shown.split())
    assert "Integrated Gradients for " in sums and "Shapley values for " in sums and sums.count("+ absorbed") == 2
    assert "steps is 0; it must be a whole number" in run("explain", "good", "--method", "ig", "--set", "steps=0").stderr


def test_settings_that_do_nothing_are_noted() -> None:
    done = run("explain", "good", "--method", "sa", "--method", "gi", "--epsilon", "3", "--product", "half", "--format", "json")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2
    assert (
        done.stderr
        == "whence: note: --epsilon, --product: no effect with --method sa and --method gi, only with --method lrp\n"
    )
    assert run("explain", "good", "--method", "sa", "--method", "lrp", "--epsilon", "3", "--format", "json").stderr == ""
    assert run("explain", "good", "--method", "gi", "--format", "json").stderr == ""


def test_the_name_of_a_file_is_a_text_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "my reviews.txt").write_text("good film\n", encoding="utf-8")
    done = run("explain", "my reviews.txt", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"] == "my reviews.txt"
    assert done.stderr.startswith("whence: note: 'my reviews.txt' is explained as a text")
    assert done.stderr.endswith("give --file 'my reviews.txt'\n")
    assert run("explain", "--file", "my reviews.txt", "--format", "json", cwd=tmp_path).stderr == ""


def test_the_rule_for_products_is_an_option() -> None:
    done = run("explain", "a fine film", "--product", "half", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["method"]["product"] == "half"


def test_an_output_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("loop", "x" * 300):
        done = run("explain", "a fine film", "--output", str(tmp_path / name))
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert "cannot be written" in done.stderr
        assert "Error" not in done.stderr


def test_the_words_of_sensitivity_analysis_matter_but_speak_for_nothing() -> None:
    done = run("explain", "a fine film", "--method", "sa")
    assert "[++word] [+word] matter;" in done.stdout
    assert "for the target" not in done.stdout.split("very positive")[-1]
