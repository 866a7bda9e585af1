"""Random programs, changes in place, complex numbers and state included: explained as they compute, or refused.

WHENCE_FUZZ=10000 runs that many new ones; `python -m tests.programs` counts how they end.
"""

import os

from hypothesis import HealthCheck, given, settings

from tests.programs import Trial, trials

EXAMPLES = os.environ.get("WHENCE_FUZZ")


@settings(max_examples=int(EXAMPLES or 300), derandomize=EXAMPLES is None, suppress_health_check=[HealthCheck.too_slow])
@given(trials())
def test_a_random_program_is_explained_as_it_computes_or_refused(trial: Trial) -> None:
    trial.outcome()
