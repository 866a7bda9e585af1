"""What `whence.inspect` shows is what relevance then does."""

import gc
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import whence
from tests.models.cells import SLSTM, ZOO, LayerNormLSTM
from tests.models.networks import NETWORKS
from whence import LRP, InputError, Inspection, NoRuleError
from whence.inspection import INPUTS, Arrow, Row
from whence.render.drawing import drawing
from whence.render.inspection import notebook, page, terminal
from whence.trees import floats_of

MODELS = {**ZOO, **NETWORKS}
METHODS = [LRP(), LRP(delta=1.0), LRP(stabiliser="absorbed", product="half")]


class Last(nn.Module):
    """Something done to the steps (B, T, 6) of a recurrent layer, and a linear head."""

    def __init__(self, change: Callable[[Tensor], Tensor] = lambda y: y[:, -1]) -> None:
        super().__init__()
        self.change = change
        self.lstm, self.fc = nn.LSTM(5, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.change(self.lstm(x)[0]))


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(2, 7, 5)


def by_operation(inspection: Inspection) -> dict[str, Row]:
    return {row.operation: row for row in inspection.rows}


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_absorbed_amounts_and_choices_are_those_of_an_explanation(name: str, method: LRP) -> None:
    torch.manual_seed(0)
    model, x = MODELS[name](5, 4, 3).double(), torch.randn(2, 7, 5, dtype=torch.float64)
    found = whence.inspect(model, x, method=method)
    result = whence.relevance(model, x, target="all", method=method)
    assert found.is_explainable
    assert set(found.absorbed) == set(result.absorbed)
    assert found.choices == result.choices
    assert all(row.times > 0 and row.rule for row in found.rows)


def test_a_classifier_row_by_row(x: Tensor) -> None:
    found = whence.inspect(Last(), x)
    assert found.rows == (
        Row("lstm", "lstm", "recurrent layer nn.LSTM", "passes", "i, f, o", "g, c", "the paper's rule",
            ("lstm.l0.bias", "lstm.initial_state")),
        Row("", "getitem", "moves numbers"),
        Row("fc", "linear", "weighted connection", absorbs=("fc.bias",)),
    )  # fmt: skip
    assert [(part.layer, part.kind) for part in found.parts] == [("lstm", "nn.LSTM"), ("", "Last"), ("fc", "nn.Linear")]
    assert set(found.arrows) == {Arrow(3, 2), Arrow(2, 1), Arrow(1, 0), Arrow(0, INPUTS)}
    assert found.inputs == "inputs (2, 7, 5)"


@pytest.mark.parametrize("steps", [3, 7])
def test_the_turns_of_a_loop_are_one_part(steps: int) -> None:
    found = whence.inspect(SLSTM(5, 4, 3), torch.randn(2, steps, 5))
    assert [part.layer for part in found.parts] == ["", "gates", "", "norm", "head"]
    assert [(row.operation, row.times) for row in found.parts[0].rows] == [("unbind", 1), ("cat", steps)]
    assert found.parts[1].rows[0].times == steps
    back = {Arrow(5, 4), Arrow(4, 3), Arrow(3, 2), Arrow(2, 1), Arrow(1, 0), Arrow(0, INPUTS)}
    assert set(found.arrows) == back | {Arrow(0, 2)}  # through time: cat reads the state that part 2 made one step before


def test_layers_that_run_once_keep_the_parts_between_them_apart() -> None:
    found = whence.inspect(NETWORKS["highway and residual links"](5, 4, 3), torch.randn(2, 7, 5))
    layers = [part.layer for part in found.parts]
    assert layers == ["first", "layers.0", "", "layers.1", "", "carry", "", "out.0", "out.1"]
    assert [row.operation for row in found.parts[2].rows] == [row.operation for row in found.parts[4].rows] == ["add"]
    assert Arrow(6, 5, "gate") in found.arrows
    assert Arrow(6, 5) not in found.arrows
    assert not found.parts[5].gets_relevance


def test_gates_and_sources_of_a_cell_written_by_hand() -> None:
    rows = whence.inspect(SLSTM(5, 4, 3), torch.randn(2, 7, 5)).rows
    products = {
        (row.gate, row.source): row for row in rows if row.operation == "mul" and row.gets_relevance and row.layer == ""
    }
    assert set(products) == {("exp", "a constant, tanh, add"), ("reciprocal", "add"), ("sigmoid", "mul")}
    assert products["exp", "a constant, tanh, add"].why == "it is marked with whence.gate"
    assert products["exp", "a constant, tanh, add"].absorbs == ("constant",)
    assert products["sigmoid", "mul"].why == "it is squashed into [0, 1]"
    sigmoid = next(row for row in rows if row.operation == "sigmoid")
    assert (sigmoid.flow, sigmoid.gate, sigmoid.why) == ("gate", "its result", "it is squashed into [0, 1]")
    assert next(row for row in rows if row.operation == "reciprocal").rule == "normaliser"


def test_factors_that_are_multiplied_by_adding_logarithms() -> None:
    found = whence.inspect(ZOO["minGRU, log space (logcumsumexp)"](5, 4, 3), torch.randn(2, 7, 5))
    products = [(row.operation, row.gate, row.source) for row in found.rows if row.rule == "product, by its logarithms"]
    assert products == [("add", "log_sigmoid", "log"), ("sub", "cumsum", "add"), ("add", "cumsum", "logcumsumexp")]


def test_other_product_rules_have_no_gate(x: Tensor) -> None:
    found = whence.inspect(Last(lambda y: y[:, -1].sigmoid() * y[:, 0]), x, method=LRP(product="half"))
    product, recurrent = by_operation(found)["mul"], by_operation(found)["lstm"]
    assert (product.gate, product.source, product.why) == ("", "sigmoid, lstm", 'product="half" gives a part to each factor')
    assert recurrent.gate == ""
    assert by_operation(found)["sigmoid"].gets_relevance


def test_rules_in_plain_words(x: Tensor) -> None:
    def change(y: Tensor) -> Tensor:
        y = F.dropout(y.double().float() * 2.0, training=False).cumsum(1)
        y = F.interpolate(y.transpose(1, 2), scale_factor=2.0).transpose(1, 2)
        return y.amax(1) + y.mean(1).tanh()

    found = by_operation(whence.inspect(Last(change), x))
    words = {
        "double": "changes precision or device", "mul": "constant scale", "dropout": "dropout, switched off",
        "cumsum": "running sum", "interpolate": "linear map", "amax": "picks numbers by value", "add": "sum",
        "mean": "sum over an axis", "tanh": "activation", "linear": "weighted connection", "transpose": "moves numbers",
    }  # fmt: skip
    assert {name: found[name].rule for name in words} == words
    cells = {row.rule for row in whence.inspect(ZOO["nn.RNNCell"](5, 4, 3), x).rows}
    assert "recurrent layer nn.RNNCell (tanh)" in cells
    normed = by_operation(whence.inspect(LayerNormLSTM(5, 4, 3), x))
    assert normed["layer_norm"].rule == "normaliser, taken as a constant"


def test_all_that_is_refused_is_shown_and_what_to_do(x: Tensor) -> None:
    model = Last(lambda y: torch.sinc(torch.fmod(y, 1.5)).mean(1))
    found = whence.inspect(model, x)
    assert not found.is_explainable
    assert [row.operation for row in found.refused] == ["fmod", "sinc"]
    assert "@whence.handles(torch.sinc)" in found.refused[1].advice
    assert by_operation(found)["lstm"].gets_relevance  # what lies beyond is shown too
    assert "lstm.l0.bias" in found.absorbed
    with pytest.raises(NoRuleError, match=r"\(1\) torch.fmod .*\(2\) torch.sinc"):
        whence.relevance(model, x, target=0)


def test_a_call_without_a_rule_is_harmless_inside_a_gate(x: Tensor) -> None:
    found = whence.inspect(Last(lambda y: torch.sinc(y[:, -1]).sigmoid() * y[:, 0]), x)
    row = by_operation(found)["sinc"]
    assert (row.rule, row.flow, row.refused) == ("no rule", "gate", "")
    assert found.is_explainable
    assert set(found.arrows) == {Arrow(3, 2), Arrow(2, 1), Arrow(1, 0), Arrow(0, INPUTS)}  # none for the gate beside its source


def test_a_rule_of_the_users_that_fails_is_refused(x: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    from whence.engine.table import TABLE

    monkeypatch.setitem(TABLE, "sinc", TABLE.find(torch.sinc))

    @whence.handles(torch.sinc)
    def _(call: whence.Call, relevance: Tensor) -> Tensor:
        raise LookupError("no such thing")

    (row,) = whence.inspect(Last(lambda y: torch.sinc(y[:, -1])), x).refused
    assert (row.operation, row.rule) == ("sinc", "your own rule")
    assert "no such thing" in row.refused


def test_choices_appear_and_strict_refuses_them(x: Tensor) -> None:
    model = Last(lambda y: y[:, -1] * torch.exp(y[:, 0]))
    found = whence.inspect(model, x)
    assert [choice.operation for choice in found.choices] == ["mul"]
    assert by_operation(found)["mul"].choice.startswith("the gate is the result of exp; it is an exponential")
    assert str(found.choices[0]) in re.sub(r"\s+", " ", str(found))
    strict = whence.inspect(model, x, method=LRP(strict=True))
    assert [(row.operation, row.choice) for row in strict.refused] == [("mul", "")]
    assert strict.refused[0].advice.startswith("mark the gate with whence.gate(tensor)")


def test_relevance_starts_before_a_softmax_that_ends_the_model(x: Tensor) -> None:
    model = nn.Sequential(Last(), nn.Softmax(-1))
    found = whence.inspect(model, x)
    assert by_operation(found)["softmax"].flow == "after"
    assert [choice.why for choice in found.choices] == ["it ends the model, so relevance starts from the scores before it"]
    assert Arrow(len(found.parts), 2) in found.arrows
    (row,) = whence.inspect(model, x, method=LRP(strict=True)).refused
    assert (row.operation, row.advice) == ("softmax", "let the model return the scores before it, or leave strict=True out")


def test_what_the_output_does_not_need_gets_nothing(x: Tensor) -> None:
    class Idle(Last):
        def forward(self, x: Tensor) -> Tensor:
            x.cos()
            return super().forward(x)

    assert by_operation(whence.inspect(Idle(), x))["cos"].flow == "unused"


def test_a_model_that_cannot_be_followed_says_why_in_its_last_row(x: Tensor) -> None:
    found = whence.inspect(Last(lambda y: torch.vmap(torch.tanh)(y).sum(1)), x)
    assert not found.is_explainable
    assert [row.operation for row in found.rows] == ["lstm", ""]
    assert found.rows[0].flow == "unknown"
    assert "is inside torch.func's vmap" in found.rows[-1].refused
    assert "is inside torch.func's vmap" in re.sub(r"[\s│]+", " ", str(found))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda y: torch.from_numpy(np.tanh(y.detach().numpy()))[:, -1], "numbers leave the tensors here"),
        (lambda y: y.mean((0, 1)).expand(2, -1), "samples that do not influence each other"),
        (lambda y: torch.ones(2, 6), "does not depend on the inputs"),
    ],
)
def test_a_model_refused_as_a_whole(change: Callable[[Tensor], Tensor], why: str, x: Tensor) -> None:
    model = Last(change)
    found = whence.inspect(model, x)
    assert why in found.rows[-1].refused
    with pytest.raises(whence.WhenceError, match=why):
        whence.relevance(model, x, target=0)


def test_weights_and_modules_that_are_refused(x: Tensor) -> None:
    broken = Last()
    with torch.no_grad():
        broken.fc.bias[1] = torch.nan
    assert "fc.bias[1] is nan" in whence.inspect(broken, x).rows[-1].refused
    lazy = nn.Sequential(nn.LazyLinear(2))
    assert "has not seen any input yet" in whence.inspect(lazy, x).rows[-1].refused


def test_a_model_that_returns_no_numbers(x: Tensor) -> None:
    class Argmax(Last):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).argmax(-1)

    assert "pick its scores with call=" in whence.inspect(Argmax(), x).rows[-1].refused


def test_wrong_calls_raise(x: Tensor) -> None:
    with pytest.raises(InputError, match="the model cannot run on inputs of shape"):
        whence.inspect(Last(), x[..., :2])
    with pytest.raises(InputError, match=r"inputs\[0, 0, 0\] is nan"):
        whence.inspect(Last(), torch.full((2, 7, 5), torch.nan))
    with pytest.raises(InputError, match=r"model is a str; it must be a torch\.nn\.Module"):
        whence.inspect(cast(Any, "sst"), x)
    with pytest.raises(InputError, match="GradientXInput, which needs no rules"):
        whence.inspect(Last(), x, method="gi")
    with pytest.raises(InputError, match="args is a tuple"):
        whence.inspect(Last(), x, args=cast(Any, 3))
    with pytest.raises(InputError, match="takes the place of args and kwargs"):
        whence.inspect(Last(), x, args=(1,), call=lambda model, x: model(x))
    with pytest.raises(InputError, match="inputs is a Tensor; for a pipeline, give a text"):
        whence.inspect(whence.load("sst-bigru"), x)


def test_every_output_counts_unless_call_picks_one(x: Tensor) -> None:
    class Attending(Last):
        def forward(self, x: Tensor) -> Any:
            y = self.lstm(x)[0]
            weights = y.sum(-1, keepdim=True).softmax(1)
            return {"scores": self.fc((weights * y).sum(1)), "states": y.tanh()}

    both = by_operation(whence.inspect(Attending(), x))
    picked = by_operation(whence.inspect(Attending(), x, call=lambda model, x: model(x)["scores"]))
    assert both["tanh"].flow == "passes"
    assert picked["tanh"].flow == "unused"
    assert picked["softmax"].flow == "gate"


def test_token_ids_and_pipelines() -> None:
    found = whence.inspect(whence.load("sst-bilstm"), "a fine film")
    assert found.model == "sst-bilstm"
    assert found.inputs == "inputs, token ids (1, 3)"
    assert found.is_explainable
    assert set(found.absorbed) == {"encoder.l0.bias", "encoder.l0_reverse.bias", "encoder.initial_state"}


def test_the_model_stays_as_it_was(x: Tensor) -> None:
    model = Last(lambda y: torch.vmap(torch.tanh)(y).sum(1)).train()
    hooks = len(nn.modules.module._global_forward_hooks)
    whence.inspect(model, x)
    assert model.training
    assert torch.is_grad_enabled()
    assert len(nn.modules.module._global_forward_hooks) == hooks
    assert all(each.grad is None for each in floats_of(list(model.parameters())))


@pytest.mark.parametrize(
    "change", [lambda y: y[:, -1], torch.sinc, lambda y: torch.vmap(torch.tanh)(y)], ids=["fine", "refused", "not followed"]
)
def test_an_inspection_leaves_no_reference_cycle(change: Callable[[Tensor], Tensor], x: Tensor) -> None:
    model = Last(change)
    whence.inspect(model, x)  # what is made once stays
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        whence.inspect(model, x)
        gc.collect()
        left = [each for each in gc.garbage if type(each).__module__.startswith("whence") or isinstance(each, Tensor)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert left == []


class Tags(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = '<script>alert("1")</script>&\x1b[31m\u202e'


def hostile() -> nn.Module:
    model = nn.Sequential()
    model.add_module(HOSTILE, nn.Linear(5, 3))
    model.add_module("end", type(HOSTILE, (Last,), {})(lambda y: torch.sinc(y)))
    cast(Any, model).end.lstm = nn.LSTM(3, 6, batch_first=True)
    return model


@pytest.mark.parametrize("render", [page, notebook])
def test_names_are_escaped_in_html(render: Callable[[Inspection], str], x: Tensor) -> None:
    found = render(whence.inspect(hostile(), x))
    tags = Tags()
    tags.feed(found)
    assert "script" not in tags.tags
    assert not {"href", "src", "onclick"} & tags.attributes
    assert 'alert("1")' in tags.text
    assert "\x1b" not in found
    assert "\u202e" not in found


def test_names_do_nothing_to_the_terminal(x: Tensor) -> None:
    shown = terminal(whence.inspect(hostile(), x), colour=False, width=100)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "<script>" in shown


@pytest.mark.parametrize("name", ["nn.LSTM", "sLSTM (xLSTM)", "bi-GRU + multi-head attention", "highway and residual links"])
def test_the_drawing_is_sound(name: str) -> None:
    found = whence.inspect(MODELS[name](5, 4, 3), torch.randn(2, 7, 5))
    root = ElementTree.fromstring(drawing(found))
    tag = "{http://www.w3.org/2000/svg}"
    heads = list(root.iter(f"{tag}polygon"))
    assert len(heads) == sum(arrow.kind == "relevance" for arrow in found.arrows)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [each for each in root.iter(f"{tag}rect") if each.get("rx") == "7"]
    assert len(boxes) == len(found.parts)
    assert all(float(box.attrib["x"]) >= 0 for box in boxes)
    corners = [tuple(map(float, pair.split(","))) for head in heads for pair in head.attrib["points"].split()]
    assert all(0 <= a <= width and 0 <= b <= height for a, b in corners)
    texts = ["".join(text.itertext()) for text in root.iter(f"{tag}text")]
    for row in found.rows:
        assert any(text.startswith(row.operation[:8]) for text in texts)


def test_arrows_beside_each_other_do_not_cover_each_other() -> None:
    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(5, 5) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            found = [x]
            for layer in self.layers:
                found.append(layer(found[-1]))
            return torch.stack(found).sum(0)

    found = whence.inspect(Dense(), torch.randn(2, 5))
    assert {Arrow(3, end) for end in (INPUTS, 0, 1, 2)} <= set(found.arrows)
    lanes = re.findall(r"H[\d.]+ Q([\d.]+),", drawing(found))
    assert len(lanes) == len(set(lanes)) == 3


def test_refused_rows_are_drawn_in_red_and_gates_dashed(x: Tensor) -> None:
    good, bad = (drawing(whence.inspect(Last(change), x)) for change in (lambda y: y[:, -1], lambda y: torch.sinc(y[:, -1])))
    assert bad.count("#b2182b") > good.count("#b2182b")
    assert "refused: it has no rule" in bad
    gated = ElementTree.fromstring(drawing(whence.inspect(Last(lambda y: y[:, -1].sigmoid() * y[:, 0]), x)))
    frames = [each for each in gated.iter() if each.get("height") == "18"]
    assert [each.get("stroke-dasharray") for each in frames] == ["3 2", None, "3 2", None]  # nn.LSTM's own, then the product's


def test_it_prints_a_table_and_is_plain_data(x: Tensor) -> None:
    found = whence.inspect(Last(), x)
    assert str(found).startswith("Last · inputs (2, 7, 5) · LRP")
    lines = terminal(found, width=120, colour=False).splitlines()
    assert lines[0] == "Last · inputs (2, 7, 5) · LRP (ε = 0.001, δ = 0, stabiliser shared, product all)"
    assert lines[1].startswith("Relevance can pass from the output to the inputs, through 3 kinds of operations; nothing")
    assert any(re.search(r"●\s+linear\s+weighted connection\s+absorbs bias", line) for line in lines)
    assert any("1 lstm  nn.LSTM  relevance to inputs" in line for line in lines)
    data = json.loads(json.dumps(found.to_dict()))
    assert data["is_explainable"] is True
    assert data["parts"][2]["rows"][0]["absorbs"] == ["fc.bias"]
    assert "<svg" in (found._repr_html_() or "")


@pytest.mark.parametrize("width", [40, 200])
def test_every_operation_is_shown_at_any_width(width: int, x: Tensor) -> None:
    shown = terminal(whence.inspect(SLSTM(5, 4, 3), x), width=width, colour=False)
    assert all(len(line) <= width for line in shown.splitlines())
    assert all(name in re.sub(r"[\s│]+", "", shown) for name in ("sigmoid", "layer_norm", "whence.gate"))
