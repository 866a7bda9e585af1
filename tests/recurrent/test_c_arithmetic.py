"""The arithmetic of the C kernels where it is delicate: sums that are exactly zero, and gates far out."""

import ctypes
import re
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from whence import LRP
from whence.recurrent.cells import CELLS
from whence.recurrent.directions import DirectionsLayer
from whence.recurrent.lstm.weights import lstm_weights
from whence.recurrent.native import compiled
from whence.recurrent.native import layer as native
from whence.recurrent.native.arguments import Arguments, struct
from whence.recurrent.native.compiled import Native, source_of
from whence.recurrent.weights import Weights

PRECISIONS = [torch.float32, torch.float64]


def both_layers(cell: str, x: Tensor, weights: Weights, states: list[Tensor]) -> tuple[native.NativeLayer, DirectionsLayer]:
    """The same layer by the kernels and by the reference."""
    if native.kernels(CELLS[cell], x.dtype).library is None:
        pytest.skip("no C compiler")
    quick = native.NativeLayer(CELLS[cell], x, [weights], states, None)
    return quick, DirectionsLayer(CELLS[cell], x, [weights], states, None)


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_a_candidate_that_is_zero_counts_as_positive(dtype: torch.dtype) -> None:
    """a = 1 − 1 = 0 and c = 0: half of r = 1 is new, so q = ½ / ε = 1, and each of three lower neurons shares ε q / 3."""
    x = torch.tensor([[[1.0, -1.0]]], dtype=dtype)
    rows = torch.zeros(4, 2, dtype=dtype)
    rows[2] = 1  # the candidate's
    states = [torch.zeros(1, 1, 1, dtype=dtype)] * 2
    for layer in both_layers("lstm", x, lstm_weights(rows, torch.zeros(4, 1, dtype=dtype), has_biases=False), states):
        swept = layer.relevance(
            torch.ones(1, 1, 1, 1, dtype=dtype), [torch.zeros(1, 1, 1, 1, dtype=dtype)] * 2, LRP(epsilon=0.5).rules,
            direction=None, by_step=False,
        )  # fmt: skip
        assert_close(swept.x.flatten(), torch.tensor([1 + 1 / 6, -1 + 1 / 6], dtype=dtype))
        assert_close(swept.states[0].flatten(), torch.tensor([1 / 6], dtype=dtype))
        assert_close(swept.states[1].flatten(), torch.tensor([0.5], dtype=dtype))


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("method", [LRP(epsilon=0.5), LRP(epsilon=0.5, delta=0.3, stabiliser="absorbed")], ids=str)
@pytest.mark.parametrize("cell", CELLS)
def test_sums_that_are_zero_are_the_references(cell: str, method: LRP, dtype: torch.dtype) -> None:
    x = torch.tensor([[[1.0, -1.0]], [[2.0, -2.0]], [[-0.5, 0.5]]], dtype=dtype)
    rows = torch.ones(CELLS[cell].gates * 2, 2, dtype=dtype)
    weights = CELLS[cell].weights(rows, rows, has_biases=False)
    states = [torch.tensor([[[1.0, -1.0]]], dtype=dtype)] * len(CELLS[cell].states)
    r_outputs = torch.arange(1.0, 7, dtype=dtype).view(1, 3, 1, 2)
    r_states = [torch.ones(1, 1, 1, 2, dtype=dtype)] * len(states)
    quick, slow = (
        layer.relevance(r_outputs, r_states, method.rules, direction=None, by_step=False)
        for layer in both_layers(cell, x, weights, states)
    )
    assert_close(quick.x, slow.x)
    assert_close(list(quick.states), list(slow.states))
    assert_close(quick.stabiliser, slow.stabiliser)


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("cell", CELLS)
def test_gates_far_out_are_open_or_closed(cell: str, dtype: torch.dtype) -> None:
    """Sums of up to ±10⁴, beyond the largest exponent of either precision, and on both sides of float32's."""
    torch.manual_seed(0)
    module: Any = CELLS[cell].module(1, 8).to(dtype)
    far = torch.tensor([1e4, -1e4, 720, -720, 87, -87, 89, -89, 30, -30, 10, -10], dtype=dtype)
    x = far.view(1, -1, 1)
    with torch.no_grad():
        module.weight_ih_l0.copy_(torch.where(torch.rand_like(module.weight_ih_l0) < 0.5, 1.0, -1.0))
        expected = module(x)[0]
    weights = CELLS[cell].weights(*module.all_weights[0], has_biases=True)
    states = [torch.zeros(1, len(far), 8, dtype=dtype)] * len(CELLS[cell].states)
    quick, slow = both_layers(cell, x, weights, states)
    assert quick.outputs().isfinite().all()
    assert_close(quick.outputs(), expected)
    r_outputs, r_states = (
        torch.ones(1, 1, len(far), 8, dtype=dtype),
        [torch.zeros(1, 1, len(far), 8, dtype=dtype)] * len(states),
    )
    found, needed = (
        layer.relevance(r_outputs, r_states, LRP().rules, direction=None, by_step=False).x for layer in (quick, slow)
    )
    assert found.isfinite().all()
    assert_close(found, needed)


@pytest.mark.parametrize("cell", [name for name, cell in CELLS.items() if cell.native is not None])
def test_whole_numbers_have_64_bits_on_every_system(cell: str) -> None:
    """`long` has 32 on Windows. What Python passes is what the sources declare."""
    kept = cast(Native, CELLS[cell].native)
    source = re.sub(r"/\*.*?\*/", "", source_of(kept), flags=re.DOTALL)
    assert not re.search(r"\b(long|short|unsigned|size_t)\b", source)
    folder = Path(native.__file__).parent
    assert not [path.name for path in folder.glob("*.py") if re.search(r"c_u?long\b", path.read_text("utf-8"))]
    kinds = {"int64_t": ctypes.c_int64, "double": ctypes.c_double}
    fields = re.findall(r"^    (.+?)(\w+);", struct(), flags=re.MULTILINE)
    assert [(name, kinds.get(kind.strip(), ctypes.c_void_p)) for kind, name in fields] == list(Arguments._fields_)
    if native.kernels(CELLS[cell], torch.float64).library is None:
        pytest.skip("no C compiler")
    kernels = native.Kernels(kept, torch.float64)
    for name, function in (("pack", kernels._pack), ("scratch", kernels._scratch)):
        (declared,) = re.findall(rf"NAME\({name}\)\((.*?)\)", source, flags=re.DOTALL)
        wanted = [ctypes.c_void_p if "*" in each else kinds[each.split()[0]] for each in declared.split(",")]
        assert list(function.argtypes) == wanted


def test_a_library_is_kept_for_one_kind_of_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "compiler"  # one that is quick: an empty library
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\nexec cc -shared -x c /dev/null -o "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    names: list[set[str]] = []
    for flags in ("sse2", "sse2 avx512f", "sse2"):
        folder = tmp_path / f"cache-{len(names)}"
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        monkeypatch.setattr(compiled, "_processor", lambda flags=flags: flags)
        compiled.built.cache_clear()
        native.kernels(CELLS["lstm"], torch.float32)
        names.append({path.name for path in folder.rglob("*.so")})
    compiled.built.cache_clear()
    if not names[0]:
        pytest.skip("no C compiler")
    assert names[0] == names[2]
    assert names[0].isdisjoint(names[1])
