"""What the tests of this folder share."""

import pytest

import whence
from whence.models.pipeline import Pipeline


@pytest.fixture(scope="session")
def pipeline() -> Pipeline:
    return whence.load("sst-bilstm")
