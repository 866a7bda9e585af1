"""The same on a GPU as on the CPU, in evaluation mode, with cuDNN as it is."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence, pad_sequence
from torch.testing import assert_close

from tests.models import BiLSTM, Tagger
from whence import LRP, GradientXInput, SensitivityAnalysis, relevance

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
METHODS = [LRP(), LRP(delta=1.0), LRP(stabiliser="absorbed"), SensitivityAnalysis(), GradientXInput()]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_gpu_gives_the_cpus_relevance(method: LRP) -> None:
    torch.manual_seed(0)
    sentences = [torch.randn(length, 8, dtype=torch.float64) for length in (3, 7, 1, 7)]
    padded = pad_sequence(sentences, batch_first=True)
    model = BiLSTM(8, 6, 5).double().eval()
    stacked = (
        Tagger(nn.LSTM(8, 6, num_layers=2, batch_first=True, proj_size=3, dropout=0.5), "mean", 2, deep=True).double().eval()
    )
    for case, inputs, more in (
        (model, padded, {"lengths": [3, 7, 1, 7]}),
        (model, pack_sequence(sentences, enforce_sorted=False), {}),
        (stacked, padded, {}),
        (stacked.train(), padded, {}),
    ):
        expected = relevance(case, inputs, target=1, method=method, **more)
        found = relevance(case.cuda(), inputs.cuda(), target=1, method=method, **more)
        case.cpu()
        one, other = (r.relevance.data if not isinstance(inputs, torch.Tensor) else r.relevance for r in (found, expected))
        assert_close(one.cpu(), other, rtol=1e-9, atol=1e-11)
        assert_close(found.score.cpu(), expected.score)
        for name, amount in expected.absorbed.items():
            assert_close(found.absorbed[name].cpu(), amount, rtol=1e-9, atol=1e-11)
    assert torch.backends.cudnn.enabled


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_float32_on_the_gpu(method: LRP) -> None:
    torch.manual_seed(0)
    model, x = BiLSTM(60, 60, 5).double().eval(), torch.randn(16, 20, 60, dtype=torch.float64)
    exact = relevance(model, x, target=2, method=method).relevance
    found = relevance(model.float().cuda(), x.float().cuda(), target=2, method=method)
    # Gradients go through cuDNN as the user has set it, and its recurrent layers use TF32 (11 bits) unless told otherwise.
    tolerance = 1e-4 if isinstance(method, LRP) else 1e-2
    assert_close(found.relevance.double().cpu(), exact, rtol=0, atol=tolerance * exact.abs().max().item())
