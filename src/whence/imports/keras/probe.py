"""An HDF5 file is first read by another process: the HDF5 library may crash on a damaged one, or take all memory or time."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from whence.errors import ModelError
from whence.imports.keras import probe_script
from whence.quoting import shortened

PATIENCE = 60  # seconds, for a small file on a busy machine; the script has its own limit of computing time
BYTES_PER_SECOND = 2**22  # that are surely read in a second on a busy machine
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}


def require_readable(content: bytes, folders: Sequence[str]) -> None:
    """Refuse an HDF5 file that cannot be read. The folders are those of the modules that read it."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise ModelError("HDF5 files are first read by another process, and there is no Python program to start")
    patience = PATIENCE + len(content) // BYTES_PER_SECOND
    command = [sys.executable, "-I", str(Path(probe_script.__file__)), *folders]
    try:
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.seek(0)
            result = subprocess.run(
                command,
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD},
                timeout=patience,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise ModelError(f"it is damaged: HDF5 cannot read it (stopped after {patience} s)") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise ModelError(
            f"HDF5 files are first read by another process, and it cannot be started: {shortened(error)}"
        ) from None
    _require_sound(result.returncode, result.stdout.decode("utf-8", "replace").splitlines())


def _require_sound(status: int, lines: Sequence[str]) -> None:
    if lines[:1] != [probe_script.STARTED]:
        raise ModelError(f"HDF5 files are first read by another process, and it did not start: it ended with {status}")
    if status == 0 and lines[1:] == [probe_script.SOUND]:
        return
    reason = shortened(" ".join(lines[1:])) if lines[1:] else f"the process ended with {status}"
    raise ModelError(f"it is damaged: HDF5 cannot read it ({reason})")
