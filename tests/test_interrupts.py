"""Ctrl-C at any line, ours or PyTorch's: the model, its hooks, PyTorch's switches and our own counts are as they were.

300 interrupts here; `WHENCE_INTERRUPTS=20000 pytest tests/test_interrupts.py` injects as many as that.
"""

import os
import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.testing import assert_close

from tests.test_no_trace import assert_same, state_of
from whence import LRP, GradientXInput, relevance
from whence.engine.held import ModelParts
from whence.methods import predicting

COUNT = int(os.environ.get("WHENCE_INTERRUPTS", "300"))
WATCHED = (os.sep + "whence" + os.sep, os.sep + "torch" + os.sep, "contextlib.py")


class Everything(nn.Module):
    """Token ids, a recurrent layer, a hand-written gate, products that are rewritten, and dropout that is at rest."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(9, 4), nn.LSTM(4, 3, batch_first=True)
        self.gate, self.out, self.drop = nn.Linear(3, 3), nn.Linear(3, 2), nn.Dropout()

    def forward(self, ids: Tensor) -> Tensor:
        h = self.drop(self.lstm(self.words(ids))[0])
        h = torch.addcmul(h, self.gate(h).sigmoid(), h.relu())
        return self.out(h.amax(1))


def everything_of(model: nn.Module) -> dict[str, Any]:
    return {
        **state_of(model),
        "always called": len(torch_module._global_forward_hooks_always_called),
        "held": len(predicting._HELD) + len(predicting._STATES),
        "inference": torch.is_inference_mode_enabled(),
        "vmaps": min(torch._C._vmapmode_increment_nesting(), torch._C._vmapmode_decrement_nesting()),
        **predicting.Switches.now()._asdict(),
    }


class Interrupt:
    """Raises KeyboardInterrupt at the `at`-th watched line; counts lines where there is no `at`."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.lines = at, 0

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in WATCHED):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                raise KeyboardInterrupt
        return self


def traced(call: Callable[[], Any], interrupt: Interrupt) -> bool:
    """Whether a call came to its end."""
    sys.settrace(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        return False
    finally:
        sys.settrace(None)
    return True


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=["lrp", "gi"])
@pytest.mark.parametrize("target", [0, "all"])
def test_an_interrupt_leaves_everything_as_it_was(method: LRP, target: Any) -> None:
    torch.manual_seed(0)
    model, ids = Everything().double().train(), torch.randint(9, (3, 4))

    def call() -> Tensor:
        return relevance(model, ids, target=target, method=method, at="lstm" if method == LRP() else None).relevance

    expected = call()
    counted = Interrupt()
    assert traced(call, counted)
    assert counted.lines > 1000
    before = everything_of(model)
    generator = random.Random(0)
    missed = 0
    for _ in range(COUNT // 4):
        at = generator.randint(1, counted.lines)
        missed += traced(call, Interrupt(at))
        after = everything_of(model)
        assert_same(dict(before), dict(after))
    assert missed <= COUNT // 40  # the number of lines differs a little from call to call
    assert_close(call(), expected)


def test_an_interrupt_inside_a_vmap_leaves_it() -> None:
    model = nn.Linear(1, 1)
    torch._C._vmapmode_increment_nesting()
    torch._C._vmapmode_increment_nesting()
    with pytest.raises(KeyboardInterrupt), predicting.predicting(ModelParts(model)):
        raise KeyboardInterrupt
    assert torch.rand(2).shape == (2,)  # refused inside a vmap
    assert min(torch._C._vmapmode_increment_nesting(), torch._C._vmapmode_decrement_nesting()) == 0
