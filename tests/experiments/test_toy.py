"""Ground truth: for models that add and subtract, the paper's rule finds the numbers."""

import pytest
import torch

from whence import LRP, GradientXInput
from whence.data.toy import Task, sums
from whence.experiments.toy import faithfulness, trained


@pytest.mark.parametrize("task", ["add", "subtract"])
def test_lrp_finds_the_numbers(task: Task) -> None:
    models = trained(task, 2, steps=1000)
    found = faithfulness(models, task, LRP())
    sign = 1 if task == "add" else -1
    assert found.first >= 0.95
    assert sign * found.second >= 0.95
    assert found.ratio == pytest.approx(1, abs=0.05)
    finer = faithfulness(models, task, LRP(epsilon=1e-6))
    assert finer.ratio == pytest.approx(1, abs=0.02)
    assert sign * faithfulness(models, task, GradientXInput()).second >= 0.95


@pytest.mark.parametrize("length", [2, 4, 14])
def test_the_task_is_what_it_says(length: int) -> None:
    data = sums("subtract", 50, length, torch.Generator().manual_seed(0))
    n_a, n_b = data.numbers
    torch.testing.assert_close(data.y, n_a - n_b)
    assert (data.a < data.b).all()
    assert ((data.x != 0).sum(-1) <= 1).all()
    assert data.x[..., 1].count_nonzero() == data.x[..., 2].count_nonzero() == 50
