"""What the paper's text says about the cost of SA and LRP: one pass, and the same answer every time."""

from collections.abc import Mapping

from whence._explain import explain_all
from whence.experiments.findings import Finding, found
from whence.experiments.test_set import TestSet
from whence.methods.method import Method

SAMPLE = 32  # how many sentences are explained twice
COMPARED = ("sa", "lrp")


def cost_findings(test: TestSet, methods: Mapping[str, Method]) -> list[Finding]:
    """SA and LRP run the model once for an explanation, and give the same numbers when they are run again."""
    return [_one_pass(test, methods), _deterministic(test, methods)]


def _one_pass(test: TestSet, methods: Mapping[str, Method]) -> Finding:
    claim = "SA and LRP explain a sentence with one forward pass of the model, and one pass back"
    calls = {name: _forward_passes(test, methods[name]) for name in COMPARED}
    detail = "the most forward passes that were counted for one sentence; the pass back uses what the forward pass kept"
    differs = f"here the model ran {max(calls.values())} times"
    return found("Cost", claim, max(calls.values()) == 1, max(calls.values()), detail, differs=differs)


def _forward_passes(test: TestSet, method: Method) -> int:
    """How often the module runs while the first sentence is explained."""
    calls = 0

    def count(*given: object) -> None:
        nonlocal calls
        calls += 1

    handle = test.pipeline.module.register_forward_pre_hook(count)
    try:
        explain_all(test.pipeline, test.texts[:1], target=test.labels[0], method=method)
    finally:
        handle.remove()
    return calls


def _deterministic(test: TestSet, methods: Mapping[str, Method]) -> Finding:
    claim = "SA and LRP are deterministic: run again, they give the same numbers"
    rows = range(min(SAMPLE, len(test)))
    largest = max(
        abs(one - other)
        for name in COMPARED
        for first, second in zip(*(test.explained(methods[name], rows=rows) for _ in range(2)), strict=True)
        for one, other in zip(first.relevance, second.relevance, strict=True)
    )
    detail = f"the largest difference of any word's relevance in {len(rows)} sentences that were explained twice"
    return found("Cost", claim, largest == 0, largest, detail, differs=f"here relevance differs by up to {largest:.2g}")
