"""Series models: checked, saved, loaded, and refused when their files are not right."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

import whence
from whence.errors import DataError, ModelError
from whence.models.classifier import Cell
from whence.models.forecaster import Forecaster, ForecasterArchitecture
from whence.models.series import SeriesModel, load_series_model
from whence.models.table import csv_text, read_table

EXAMPLE = "date,rain,warmth\n2024-01-01,1.5,-2\n2024-01-02,0,3e0\n"


def make(cell: Cell = "lstm", **more: Any) -> SeriesModel:
    torch.manual_seed(0)
    module = Forecaster(ForecasterArchitecture(features=2, outputs=3, cell=cell, hidden=4))
    settings: dict[str, Any] = {
        "features": ("rain", "warmth"),
        "outputs": ("1 day", "2 days", "é"),
        "name": "tiny",
        "unit": "m³/s",
        "step": "day",
        "feature_centre": (0.0, 5.0),
        "feature_scale": (2.0, 8.0),
        "output_centre": (3.0, -1.0, 0.5),
        "output_scale": (10.0, 0.1, 1.0),
        "example": EXAMPLE,
        "description": "made up",
        "record": {"seed": 0},
    }
    return SeriesModel(module.eval(), **{**settings, **more})


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_a_saved_model_comes_back(tmp_path: Path, cell: Cell) -> None:
    model = make(cell)
    model.save(tmp_path / "saved")
    before = torch.get_rng_state()
    again = whence.load(tmp_path / "saved")
    assert torch.get_rng_state().equal(before)
    assert isinstance(again, SeriesModel)
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["config.json", "example.csv", "model.safetensors"]
    for name in ("features", "outputs", "unit", "step", "example", "description", "record"):
        assert getattr(again, name) == getattr(model, name)
    for name in ("feature_centre", "feature_scale", "output_centre", "output_scale"):
        assert getattr(again, name) == getattr(model, name)
    assert again.name == "saved"
    weights = model.module.state_dict()
    assert all(each.equal(weights[name]) for name, each in again.module.state_dict().items())
    assert not again.module.training
    values = again.example_table().values
    assert whence.explain_series(again, values).relevance == whence.explain_series(model, values).relevance


def test_what_is_not_said_is_0_1_or_nothing() -> None:
    model = SeriesModel(nn.Linear(2, 2), ("a", "b"), ("y", "z"))
    assert (model.feature_centre, model.feature_scale) == ((0.0, 0.0), (1.0, 1.0))
    assert (model.output_centre, model.output_scale) == ((0.0, 0.0), (1.0, 1.0))
    bare = SeriesModel(nn.Linear(2, 2))
    assert (bare.features, bare.outputs, bare.feature_scale, bare.output_centre, bare.example) == ((), (), (), (), "")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"features": ("a", "a")}, r"features are \('a', 'a'\); give different names, or none"),
        ({"features": ("a", 3)}, "give different names"),
        ({"outputs": "1 day"}, "outputs are '1 day'; give different names"),
        ({"outputs": ("",)}, "give different names"),
        ({"unit": 3}, "unit is 3; it must be a text"),
        ({"example": b"a,b"}, "example is b'a,b'; it must be a text"),
        ({"feature_centre": (1.0,)}, "feature_centre has 1 numbers; give one for each of 2 features, or none"),
        ({"output_scale": (1.0, 0.0, 1.0)}, "output_scale holds 0.0; give finite numbers above 0"),
        ({"feature_scale": (1.0, float("nan"))}, "feature_scale holds nan; give finite numbers above 0"),
        ({"feature_centre": (1, 10**400)}, "feature_centre holds 1000.*; give finite numbers$"),
        ({"feature_centre": (True, 1.0)}, "feature_centre holds True"),
        ({"feature_centre": 5.0}, "feature_centre has 1 numbers"),
        (
            {"example": "date,rain\n2024-01-01,1\n"},
            r"the example cannot be read: the columns .* are \['date', 'rain'\]; the model",
        ),
        ({"example": "date,rain,warmth\n"}, "the table has no steps"),
    ],
)
def test_a_wrong_setting_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make(**wrong)


def test_a_forecaster_without_names_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"module is a int; it must be a torch\.nn\.Module"):
        SeriesModel(3)  # pyright: ignore
    nameless = SeriesModel(make().module)
    with pytest.raises(ModelError, match="the model names 0 features and 0 outputs; to be saved it must name all 2 and 3"):
        nameless.save(tmp_path)
    with pytest.raises(ModelError, match="the example holds '\\\\ud800', which is no character"):
        make(example="\ud800,rain,warmth\nx,1,2\n").save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def edited(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def with_weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    weights = load((folder / "model.safetensors").read_bytes())
    change(weights)
    (folder / "model.safetensors").write_bytes(save(weights))


LONG = "x" * 10**6


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: (d / "config.json").unlink(), "config.json does not exist; a saved series model holds config.json, model"),
        (lambda d: (d / "example.csv").unlink(), "example.csv does not exist; a saved series model holds"),
        (lambda d: (d / "config.json").write_text("{"), "config.json is no series model's"),
        (lambda d: (d / "config.json").write_text("[]"), "config.json is no series model's"),
        (lambda d: (d / "config.json").write_text("[" * 100_000), "config.json is no series model's"),
        (lambda d: (d / "config.json").write_bytes(b"\xff\xfe\xff"), "config.json is not utf-"),
        (lambda d: edited(d, lambda c: c.pop("kind")), "config.json is no series model's: KeyError"),
        (lambda d: edited(d, lambda c: c.update(kind=LONG)), "its kind is 'xxx"),
        (lambda d: edited(d, lambda c: c.pop("unit")), "config.json is no series model's"),
        (lambda d: edited(d, lambda c: c["architecture"].update(layers=2)), "config.json is no series model's"),
        (lambda d: edited(d, lambda c: c["architecture"].update(cell="mamba")), "cell is 'mamba'; known are lstm, gru, rnn"),
        (lambda d: edited(d, lambda c: c["architecture"].update(hidden=10**9)), "hidden is 1000000000; it must be"),
        (lambda d: edited(d, lambda c: c["architecture"].update(hidden=LONG)), "hidden is 'xxx"),
        (lambda d: edited(d, lambda c: c["architecture"].update(features=True)), "features is True; it must be"),
        (
            lambda d: edited(d, lambda c: c["architecture"].update(hidden=5)),
            r"is \(.*\) torch.float32; it must be \(.*\) floats",
        ),
        (lambda d: edited(d, lambda c: c.update(features=["a", "a"])), "features are .*; give different names"),
        (lambda d: edited(d, lambda c: c.update(outputs=["a"], output_centre=[], output_scale=[])), "2 features and 1 outputs"),
        (
            lambda d: edited(d, lambda c: c.update(output_scale=[1, 2, -1])),
            "output_scale holds -1; give finite numbers above 0",
        ),
        (lambda d: edited(d, lambda c: c.update(feature_centre=[0, float("inf")])), "it holds Infinity"),
        (lambda d: edited(d, lambda c: c.update(unit=3)), "unit is 3; it must be a text"),
        (lambda d: (d / "example.csv").write_bytes(b"\xff"), "example.csv is not utf-8 text"),
        (lambda d: (d / "example.csv").write_text("date,rain,warmth\nx,1,2\n"), "do not belong together"),
        (lambda d: with_weights(d, lambda w: w["head.weight"].fill_(float("nan"))), "head.weight holds numbers that are not"),
        (lambda d: with_weights(d, lambda w: w["head.weight"].fill_(1.0)), "do not belong together"),
        (lambda d: with_weights(d, lambda w: w.pop("head.weight")), "each weight .* once: head.weight"),
        (lambda d: with_weights(d, lambda w: w.update({LONG: torch.ones(1)})), "each weight .* once: xxx"),
        (lambda d: (d / "model.safetensors").write_bytes(b"\x80\x04\x95pickle"), "is no safetensors file"),
        (lambda d: ((d / "config.json").unlink(), (d / "config.json").symlink_to("/dev/zero")), "is no ordinary file"),
    ],
)
def test_a_broken_model_is_refused(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    make().save(tmp_path)
    spoil(tmp_path)
    with pytest.raises(ModelError, match=message) as caught:
        load_series_model(tmp_path)
    assert len(str(caught.value)) < 500 + len(str(tmp_path))


def test_a_table_is_read_with_or_without_labels() -> None:
    table = read_table("\ufeffday, a ,b\r\nMon,1,-2.5\r\n\r\nTue,3,4e1\r\n")
    assert table == (("a", "b"), ((1.0, -2.5), (3.0, 40.0)), ("Mon", "Tue"))
    assert read_table("a,b\n1,2\n") == (("a", "b"), ((1.0, 2.0),), ())
    assert read_table("year,a\n2024,2\n", features=["a"]) == (("a",), ((2.0,),), ("2024",))
    written = csv_text([[0.1, 2.0], [3.0, 1e-9]], features=["a", 'b "x", y'], labels=["1 May", "2 May"], label="day")
    assert read_table(written) == (("a", 'b "x", y'), ((0.1, 2.0), (3.0, 1e-9)), ("1 May", "2 May"))
    assert csv_text([[1]], features=["a"]) == "a\n1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the table has no steps; give a line with the names"),
        ("a,b\n1,2\n3\n", "step 2 of the table has 1 cells; its header names 2 columns"),
        ("d,a\nx,1\ny,nan\n", "'a' is 'nan' in step 2 of the table; it must be a finite number"),
        ("d,a\nx,1\ny,\n", "'a' is '' in step 2"),
        (f"d,a\nx,1\ny,{LONG[:1000]}\n", "'a' is 'xxx"),
        (f"d,a\nx,{LONG}\n", "the table is not CSV text: field larger than field limit .* in line 2"),
    ],
)
def test_a_table_with_gaps_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_table(text)
    assert len(str(caught.value)) < 300
