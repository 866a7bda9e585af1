"""What all tests share: double precision where not said otherwise, and where the reference numbers lie."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

if not torch.cuda.is_available():
    os.environ.setdefault(
        "TRITON_INTERPRET", "1"
    )  # the kernels for GPUs run here too, slowly; to be set before they are imported

settings.register_profile("whence", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("whence")
torch.set_num_threads(1)

REFERENCE = Path(os.environ.get("WHENCE_REFERENCE", Path(__file__).parents[2] / "shared" / "data" / "reference"))


SST = Path(os.environ.get("WHENCE_SST", Path(__file__).parents[2] / "shared" / "data" / "sst"))


@pytest.fixture(scope="session")
def sst() -> Path:
    """The folder of SST's tree files."""
    if not (SST / "train.txt").exists():
        pytest.skip("no SST: set WHENCE_SST to the folder of train.txt, dev.txt and test.txt")
    return SST


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of the reference weights and golden numbers."""
    if not (REFERENCE / "golden.npz").exists():
        pytest.skip("no reference numbers: set WHENCE_REFERENCE to the folder of golden.npz")
    return REFERENCE
