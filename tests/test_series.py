"""`explain_series`: relevance in the outputs' unit, for every kind of output, with stretches blanked."""

import json
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import whence
from tests.models.test_series import make
from whence.errors import InputError, ModelError, NoRuleError, TargetError
from whence.models.classifier import Cell
from whence.models.series import SeriesModel

METHODS = [whence.LRP(), whence.LRP(epsilon=0.1, delta=1.0), whence.SensitivityAnalysis(), whence.GradientXInput()]


def series(steps: int = 12, features: int = 2) -> Tensor:
    return torch.randn(steps, features, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 6 + 2


def total(explanation: whence.SeriesExplanation) -> float:
    return sum(map(sum, explanation.relevance)) + sum(explanation.absorbed.values())


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("steps", [1, 2, 90])
@pytest.mark.parametrize("method", METHODS[:2], ids=str)
def test_relevance_and_absorbed_add_up_in_the_outputs_unit(cell: Cell, steps: int, method: whence.LRP) -> None:
    model, values = make(cell), series(steps)
    for name, centre in zip(model.outputs, model.output_centre, strict=True):
        found = whence.explain_series(model, values, output=name, method=method)
        assert total(found) == pytest.approx(found.score, rel=1e-9)
        assert found.score == found.outputs[name]
        assert found.absorbed["reference level"] == centre


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_it_is_the_relevance_of_the_module_times_the_scale(method: whence.LRP) -> None:
    model, values = make(), series()
    found = whence.explain_series(model, values, output=0, method=method)
    x = (values - torch.tensor([0.0, 5.0])) / torch.tensor([2.0, 8.0])
    result = whence.relevance(model.module.double(), x[None], target=0, method=method)
    factor = 100.0 if method.name == "sa" else 10.0  # sensitivity is a squared derivative
    torch.testing.assert_close(
        torch.tensor(found.relevance, dtype=torch.float64), factor * result.relevance[0], rtol=1e-9, atol=0
    )
    assert found.score == pytest.approx(3.0 + 10.0 * float(result.score), rel=1e-12)
    absorbed = {name: 10.0 * float(amount) for name, amount in result.absorbed.items()}
    assert found.absorbed == pytest.approx({**absorbed, **({"reference level": 3.0} if method.name == "lrp" else {})})


def test_outputs_are_in_their_unit() -> None:
    model, values = make(), series()
    with torch.no_grad():
        z = model.module(((values - torch.tensor([0.0, 5.0])) / torch.tensor([2.0, 8.0]))[None].float())[0].tolist()
    found = whence.explain_series(model, values, output="é")
    assert found.outputs == pytest.approx({"1 day": 3 + 10 * z[0], "2 days": -1 + 0.1 * z[1], "é": 0.5 + z[2]}, rel=1e-5)
    assert found.output == "é"
    assert found == whence.explain_series(model, values, output=2)


def test_as_plain_data() -> None:
    found = whence.explain_series(make(), series(3), method="gi").to_dict()
    assert json.loads(json.dumps(found)) == found
    assert list(found) == [
        "model", "features", "steps", "outputs", "output", "score", "unit", "relevance", "absorbed", "method", "reference",
    ]  # fmt: skip
    assert (found["model"], found["steps"], found["unit"], found["output"]) == ("tiny", 3, "m³/s", "1 day")
    assert (found["reference"], found["method"], found["absorbed"]) == ([0.0, 5.0], {"name": "gi"}, {})
    assert [len(row) for row in cast(list[list[float]], found["relevance"])] == [2, 2, 2]
    assert repr(whence.explain_series(make(), series(3))).startswith("SeriesExplanation of '1 day' = ")


@pytest.mark.parametrize(
    ("blank", "features"),
    [
        ((2, 5), (0, 1)),
        ((2, 5, ["rain"]), (0,)),
        ({"start": 2, "end": 5, "features": [1]}, (1,)),
        ({"start": 2, "end": 5}, (0, 1)),
        ((2, 5, []), ()),
    ],
)
def test_a_blank_stands_for_the_reference(blank: Any, features: tuple[int, ...]) -> None:
    model, values = make(), series()
    expected = values.clone()
    for k in features:
        expected[2:5, k] = model.feature_centre[k]
    before = values.clone()
    found = whence.explain_series(model, values, blank=[blank])
    assert values.equal(before)
    assert found == whence.explain_series(model, expected)
    strict = whence.explain_series(model, values, blank=[blank], method=whence.LRP(stabiliser="absorbed"))
    assert all((strict.relevance[t][k] == 0) == (k in features) for t in range(2, 5) for k in range(2))
    assert found.reference == (0.0, 5.0)


def test_several_blanks_are_all_applied() -> None:
    model, values = make(), series()
    one_by_one = values.clone()
    one_by_one[0:1], one_by_one[11:12, 0] = torch.tensor([0.0, 5.0]), 0.0
    assert whence.explain_series(model, values, blank=[(0, 1), (11, 12, ["rain"])]) == whence.explain_series(model, one_by_one)


class Frame:
    """The two things that are read of a data frame."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(series().numpy(), dtype=dtype)


def test_values_may_be_lists_arrays_tensors_or_a_frame() -> None:
    model, values = make(), series()
    expected = whence.explain_series(model, values)
    for same in (values.tolist(), values.numpy(), Frame("rain", "warmth"), [tuple(row) for row in values.tolist()]):
        assert whence.explain_series(model, same) == expected
    module = Returning(lambda h, last: last)
    assert whence.explain_series(module, Frame("a", "b")).features == ("a", "b")
    assert whence.explain_series(module, values).features == ("feature 0", "feature 1")
    assert whence.explain_series(module, values, features=["x", "y"]).features == ("x", "y")
    single = Returning(lambda h, last: last, features=1)
    assert len(whence.explain_series(single, [1.0, 2.0, 3.0]).relevance) == 3


FRAMES = [("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")]


@pytest.mark.parametrize(("library", "kind"), FRAMES)
def test_the_columns_of_a_frame_are_taken_by_name(library: str, kind: str) -> None:
    made = getattr(pytest.importorskip(library), kind)
    model, values = make(), series()
    expected = whence.explain_series(model, values)
    turned = made({"warmth": values[:, 1].tolist(), "rain": values[:, 0].tolist()})
    assert whence.explain_series(model, turned) == expected
    assert whence.explain_series(model, turned, features=["rain", "warmth"]) == expected
    module = Returning(lambda h, last: last)
    found = whence.explain_series(module, turned, features=["rain", "warmth"])
    assert found == whence.explain_series(module, values, features=["rain", "warmth"])
    with pytest.raises(InputError, match=r"lack \['rain'\] and have \['snow'\] besides; tiny names \['rain', 'warmth'\]"):
        whence.explain_series(model, made({"snow": [1.0], "warmth": [2.0]}))
    with pytest.raises(InputError, match=r"the columns have \['day'\] besides; tiny names"):
        whence.explain_series(model, made({"day": [0.0], "rain": [1.0], "warmth": [2.0]}))
    with pytest.raises(InputError, match=r"lack \['a', 'b'\] and have \['warmth', 'rain'\] besides; features= names"):
        whence.explain_series(module, turned, features=["a", "b"])


def test_columns_without_names_are_taken_by_their_order() -> None:
    model, values = make(), series()
    expected = whence.explain_series(model, values)
    for library in ("pandas", "polars"):
        frame = pytest.importorskip(library).DataFrame(values.numpy())
        assert whence.explain_series(model, frame) == expected
    assert whence.explain_series(model, values.flip(1), features=["warmth", "rain"]) == expected
    with pytest.raises(InputError, match=r"the columns are \['rain', 'warmth', 'rain'\]; give each of .* once"):
        whence.explain_series(model, Frame("rain", "warmth", "rain"))


class Returning(nn.Module):
    """A user's module, with any output made of all states (B, T, H) and the last one."""

    def __init__(self, made: Callable[[Tensor, Tensor], object], features: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.head, self.made = nn.LSTM(features, 6, batch_first=True), nn.Linear(6, 6), made

    def forward(self, x: Tensor) -> object:
        states = self.head(self.lstm(x)[0])
        return self.made(states, states[:, -1])


LAST_FIRST = [f"step {n}" for n in reversed(range(12))]


@pytest.mark.parametrize(
    ("made", "names", "pick"),
    [
        (lambda h, last: last[:, 0], ["output"], lambda h: h[-1, :1]),
        (lambda h, last: last[:, :1], ["output"], lambda h: h[-1, :1]),
        (lambda h, last: last[0, 0], ["output"], lambda h: h[-1, :1]),
        (lambda h, last: last[:, :3], ["output 0", "output 1", "output 2"], lambda h: h[-1, :3]),
        (lambda h, last: last[0], [f"output {n}" for n in range(6)], lambda h: h[-1]),  # squeezed
        (lambda h, last: (last[:, :2], h), ["output 0", "output 1"], lambda h: h[-1, :2]),
        (lambda h, last: {"mean": last[:, :2], "all": h}, ["output 0", "output 1"], lambda h: h[-1, :2]),
        (lambda h, last: ((None, [last[:, :2]]), h), ["output 0", "output 1"], lambda h: h[-1, :2]),
        (
            lambda h, last: last.reshape(-1, 3, 2),
            [f"horizon {n}, output {k}" for n in range(3) for k in range(2)],
            lambda h: h[-1],
        ),
        (lambda h, last: last.unsqueeze(-1), [f"horizon {n}" for n in range(6)], lambda h: h[-1]),
        (lambda h, last: h[..., :1], LAST_FIRST, lambda h: h[:, 0].flip(0)),
        (lambda h, last: h[..., 0], LAST_FIRST, lambda h: h[:, 0].flip(0)),
        (
            lambda h, last: h[..., :2],
            [f"{step}, output {k}" for step in LAST_FIRST for k in range(2)],
            lambda h: h[:, :2].flip(0),
        ),
        (lambda h, last: last.repeat(1, 2), [f"output {n}" for n in range(12)], lambda h: h[-1].repeat(2)),  # as many as steps
    ],
)  # fmt: skip
def test_every_shape_of_output_is_named_and_explained(
    made: Callable[[Tensor, Tensor], object], names: list[str], pick: Callable[[Tensor], Tensor]
) -> None:
    module, values = Returning(made), series()
    with torch.no_grad():
        states = module.head(module.lstm(values[None].float())[0])[0]
    found = whence.explain_series(module, values)
    assert list(found.outputs) == names
    torch.testing.assert_close(torch.tensor(list(found.outputs.values())), pick(states).reshape(-1), rtol=1e-4, atol=1e-5)
    for output in {names[0], names[-1]}:
        found = whence.explain_series(module, values, output=output)
        assert total(found) == pytest.approx(found.score, abs=1e-9)
        assert found.score == found.outputs[output]
        assert found.model == "your model"
    if names == LAST_FIRST:
        early = whence.explain_series(module, values, output="step 3")
        assert any(early.relevance[3]) and not any(any(row) for row in early.relevance[4:])


def test_at_most_200_outputs_are_named() -> None:
    found = whence.explain_series(Returning(lambda h, last: h), series(100))
    assert len(found.outputs) == 200
    assert list(found.outputs)[:7] == [*(f"step 99, output {k}" for k in range(6)), "step 98, output 0"]
    says = r"no output 'step 5, output 1'; .*; of 600 outputs, these 200 have names: explain others with whence.relev"
    with pytest.raises(TargetError, match=says):
        whence.explain_series(Returning(lambda h, last: h), series(100), output="step 5, output 1")


def test_names_may_be_those_of_the_last_step() -> None:
    model = SeriesModel(Returning(lambda h, last: h[..., :2]), outputs=("mean", "spread"), output_scale=(2.0, 1.0))
    found = whence.explain_series(model, series())
    assert list(found.outputs) == ["mean", "spread"]
    plain = whence.explain_series(model.module, series(), output="step 11, output 0")
    assert found.score == pytest.approx(2 * plain.score, rel=1e-12)
    with pytest.raises(ModelError, match="the module gave 24 outputs; your model names 3"):
        whence.explain_series(SeriesModel(model.module, outputs=("a", "b", "c")), series())


def test_a_series_of_one_step_has_one_row_of_outputs() -> None:
    assert list(whence.explain_series(Returning(lambda h, last: h[..., :1]), series(1)).outputs) == ["output"]
    assert list(whence.explain_series(Returning(lambda h, last: h[..., :2]), series(1)).outputs) == [
        "step 0, output 0",
        "step 0, output 1",
    ]


def test_a_function_that_ends_the_module_is_left_out_of_the_score() -> None:
    module = Returning(lambda h, last: nn.functional.softplus(last[:, :1]))
    found = whence.explain_series(SeriesModel(module, outputs=("flow",), output_scale=(4.0,)), series())
    assert total(found) == pytest.approx(found.score, rel=1e-9)
    before = whence.explain_series(Returning(lambda h, last: last[:, :1]), series())
    assert found.score == pytest.approx(4 * before.score, rel=1e-12)
    assert found.outputs["flow"] == pytest.approx(4 * float(nn.functional.softplus(torch.tensor(before.score))), rel=1e-6)
    assert "softplus" in found.choices[0]
    assert found.before == "softplus" and before.before == ""
    shown = f"'flow' = {found.outputs['flow']:.4g} (explained: {found.score:.4g}, before softplus) over 12 steps"
    assert shown in repr(found)
    assert found.to_dict()["choices"] == list(found.choices)


class SinglePrecision(Returning):
    """Insists on single precision."""

    def forward(self, x: Tensor) -> object:
        return super().forward(x.float()) if x.dtype == torch.float32 else torch.empty(0).fill_(self.lstm(x.float())[0].sum())


def test_a_module_that_insists_on_single_precision() -> None:
    found = whence.explain_series(SinglePrecision(lambda h, last: last), series())
    assert total(found) == pytest.approx(found.score, abs=1e-4)
    exact = whence.explain_series(Returning(lambda h, last: last), series())
    assert found.score == pytest.approx(exact.score, rel=1e-5)
    assert found.score != exact.score


def test_the_module_is_left_as_it_was() -> None:
    module = Returning(lambda h, last: last)
    module.train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    whence.explain_series(module, series())
    assert module.training
    assert all(tensor.dtype == torch.float32 and tensor.equal(before[name]) for name, tensor in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


def raising(h: Tensor, last: Tensor) -> Tensor:
    raise KeyError("no such day")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: whence.explain_series(make(), []), InputError, "the shape|the series is empty"),
        (lambda: whence.explain_series(make(), torch.zeros(0, 2)), InputError, "the series is empty; give at least one step"),
        (
            lambda: whence.explain_series(make(), series(4, 3)),
            InputError,
            r"values have 3 columns; tiny names 2 features: \['rain",
        ),
        (lambda: whence.explain_series(make(), [1.0, 2.0]), InputError, r"values have the shape \(2,\); give rows of numbers"),
        (
            lambda: whence.explain_series(make(), [[1, 2], [3]]),
            InputError,
            "step 1 has 1 values, step 0 has 2; give one number",
        ),
        (lambda: whence.explain_series(make(), [[1, "x"]]), InputError, "values are a list that holds more than numbers"),
        (lambda: whence.explain_series(make(), [[1, 10**400]]), InputError, "holds more than numbers"),
        (lambda: whence.explain_series(make(), None), InputError, r"values have the shape \(\)"),
        (lambda: whence.explain_series(make(), [[1, 2], [3, None]]), InputError, "'warmth' is nan at step 1, counted from 0"),
        (lambda: whence.explain_series(make(), [[float("inf"), 2]]), InputError, "'rain' is inf at step 0.*must be finite"),
        (
            lambda: whence.explain_series(make(), series(), output="9 days"),
            TargetError,
            r"no output '9 days'; tiny gives \['1 day",
        ),
        (lambda: whence.explain_series(make(), series(), output=3), TargetError, "there is no output 3; .* numbered from 0"),
        (lambda: whence.explain_series(make(), series(), output=-1), TargetError, "there is no output -1"),
        (lambda: whence.explain_series(make(), series(), output=cast(Any, True)), TargetError, "there is no output True"),
        (lambda: whence.explain_series(make(), series(), method="magic"), InputError, "method is 'magic'; give a method"),
        (
            lambda: whence.explain_series(make(), series(), blank=[(3, 3)]),
            InputError,
            "a blank runs from step 3 to before 3; the",
        ),
        (lambda: whence.explain_series(make(), series(), blank=[(-1, 3)]), InputError, "the series has the steps 0 to 11"),
        (lambda: whence.explain_series(make(), series(), blank=[(3, 13)]), InputError, "from step 3 to before 13"),
        (lambda: whence.explain_series(make(), series(), blank=[(3, 5, [2])]), InputError, r"names the feature 2; .*\['rain"),
        (lambda: whence.explain_series(make(), series(), blank=[(3, 5, "rain")]), InputError, "names the feature 'r'"),
        (lambda: whence.explain_series(make(), series(), blank=[(3, 5, ["snow"])]), InputError, "names the feature 'snow'"),
        (
            lambda: whence.explain_series(make(), series(), blank=[(3.5, 5)]),
            InputError,
            r"a blank is \(3.5, 5\); give \(start, end",
        ),
        (lambda: whence.explain_series(make(), series(), blank=[{"start": 3}]), InputError, "a blank is .*'start': 3"),
        (lambda: whence.explain_series(make(), series(), blank=[{"start": 3, "stop": 4}]), InputError, "a blank is"),
        (lambda: whence.explain_series(make(), series(), blank=cast(Any, [7])), InputError, "a blank is 7; give"),
        (lambda: whence.explain_series(cast(Any, 7), series()), InputError, "the model is a int; give a whence.SeriesModel"),
        (lambda: whence.explain_series("river-gru", series()), ModelError, "there is no model 'river-gru'; .*river-lstm"),
        (
            lambda: whence.explain_series("sst-bigru", series()),
            InputError,
            "the model is a Pipeline; give a whence.SeriesModel",
        ),
        (
            lambda: whence.explain_series(Returning(lambda h, last: last), series(), features=["a"]),
            InputError,
            "values have 2 columns; the list of features names 1 features",
        ),
        (
            lambda: whence.explain_series(Returning(lambda h, last: last), series(), features=["a", "a"]),
            InputError,
            "give different names, one for every column",
        ),
        (
            lambda: whence.explain_series(Returning(lambda h, last: last), series(4, 3)),
            InputError,
            "cannot run on inputs of shape",
        ),
        (
            lambda: whence.explain_series(Returning(raising), series()),
            ModelError,
            r"the module failed on a series of shape \(1, 12, 2\): KeyError: 'no such day'",
        ),
        (
            lambda: whence.explain_series(Returning(lambda h, last: "flow"), series()),
            ModelError,
            "the module gave a str; it must give numbers, or a tuple whose first tensor holds them",
        ),
        (lambda: whence.explain_series(Returning(lambda h, last: last.argmax(-1)), series()), ModelError, "must give numbers"),
        (
            lambda: whence.explain_series(Returning(lambda h, last: last / 0), series()),
            ModelError,
            "outputs are not finite numbers",
        ),
        (
            lambda: whence.explain_series(Returning(lambda h, last: h.transpose(0, 1)), series()),
            ModelError,
            r"\(12, 1, 6\) for one series of shape \(1, 12, features\); it must read \(samples, steps, features\)",
        ),
        (
            lambda: whence.explain_series(Returning(lambda h, last: h.reshape(1, 12, 3, 2)), series()),
            ModelError,
            r"and give \(samples, outputs\) or \(samples, steps, outputs\)",
        ),
        (
            lambda: whence.explain_series(Returning(lambda h, last: torch.sinc(last)), series()),
            NoRuleError,
            "sinc",
        ),
    ],
)
def test_what_cannot_be_explained_is_refused_in_a_sentence(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_module_that_takes_steps_for_samples_is_refused() -> None:
    torch.manual_seed(0)
    with pytest.raises(ModelError, match="its last output depends on the last step alone: it takes the steps for samples"):
        whence.explain_series(nn.LSTM(2, 3), torch.rand(7, 2))
    assert whence.explain_series(nn.LSTM(2, 3, batch_first=True), torch.rand(7, 2)).relevance[0][0] != 0


class Turned(Returning):
    """Reads (samples, steps, features) with a layer that reads (steps, samples, features)."""

    def __init__(self, made: Callable[[Tensor, Tensor], object]) -> None:
        super().__init__(made)
        self.lstm.batch_first = False

    def forward(self, x: Tensor) -> object:
        states = self.head(self.lstm(x.transpose(0, 1))[0]).transpose(0, 1)
        return self.made(states, states[:, -1])


@pytest.mark.parametrize("steps", [2, 120, 400])
def test_a_long_series_may_forget_its_first_steps(steps: int) -> None:
    for made in (lambda h, last: last, lambda h, last: h[..., :1]):
        found = whence.explain_series(Turned(made), series(steps))
        expected = whence.explain_series(Returning(made), series(steps))
        np.testing.assert_allclose(found.relevance, expected.relevance, rtol=1e-9, atol=1e-12)


def test_a_module_that_gives_other_numbers_each_time_is_refused() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sum((1, 2))[:, None] + torch.rand(1, dtype=x.dtype)

    with pytest.raises(ModelError, match="when it was called again with the same numbers; switch off what is random in it"):
        whence.explain_series(Noisy(), [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ma.array([[999.0, 2.0]], mask=[[True, False]]), "is nan at step 0"),
        (np.array([[1 + 2j]]), "holds more than numbers"),
        (np.array([["2024-01-01"]], dtype="datetime64[D]"), "holds more than numbers"),
        (torch.tensor([[1 + 2j]]), "holds more than numbers"),
    ],
)
def test_values_that_would_lose_something_are_refused(values: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        whence.explain_series(nn.LSTM(1, 2, batch_first=True), values, features=())


def test_numbers_too_large_for_the_unit_are_refused() -> None:
    model = whence.SeriesModel(
        nn.RNN(1, 1, batch_first=True), output_centre=(1.7e308,), output_scale=(1.7e308,), outputs=("a",)
    )
    with pytest.raises(ModelError, match="make numbers too large; choose a larger unit"):
        whence.explain_series(model, [[5.0]] * 3, method="sa")
    with pytest.raises(InputError, match="blank is 5; give a list of stretches"):
        whence.explain_series(nn.LSTM(1, 2, batch_first=True), [[1.0]], blank=cast(Any, 5))
