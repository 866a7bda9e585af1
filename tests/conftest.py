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

TESTS = Path(__file__).parent

# Files and folders whose tests take long; single ones are marked where they stand. `make check` leaves both out.
SLOW = """
    cli data experiments speed training test_batches.py test_bundled.py test_cuda.py test_docs.py test_interrupts.py
    engine/test_fuzz.py engine/test_published.py engine/test_zoo.py methods/test_lrp_laws.py
    corpus oracle test_inspect.py trust
    web
    recurrent/test_compiling.py recurrent/test_kernel_cache.py recurrent/test_paths.py recurrent/test_unfriendly.py
""".split()


def pytest_configure() -> None:
    """Refuse a list of slow tests that is out of date."""
    gone = [name for name in SLOW if not (TESTS / name).exists()]
    if gone:
        raise pytest.UsageError(f"tests/conftest.py lists {', '.join(gone)} in SLOW, which is not there; mend the list")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests."""
    for item in items:
        if any(item.path.is_relative_to(TESTS / name) for name in SLOW):
            item.add_marker("slow")


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
