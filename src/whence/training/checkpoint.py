"""A checkpoint: the tensors of a training run and a record in one file, with a digest by which damage is noticed."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from whence.errors import ModelError
from whence.models.files import write_whole
from whence.models.quoting import shortened


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], record: Mapping[str, str]) -> None:
    """Write tensors and record, whole or not at all."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_whole(path, save(plain, metadata={**record, "sha256": _digest(plain, record)}))


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the record of a file; refused unless they are just what was written, and finite."""
    if not path.is_file():
        raise ModelError(f"{path} is no ordinary file; remove it to start anew")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            record = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, RuntimeError, OSError) as error:
        raise ModelError(f"{path} is no checkpoint: {shortened(error)}; remove it to start anew") from None
    if record.pop("sha256", None) != _digest(tensors, record):
        raise ModelError(f"{path} is damaged; remove it to start anew")
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise ModelError(f"{path}: {name} holds numbers that are not finite; remove it to start anew")
    return tensors, record


def _digest(tensors: Mapping[str, Tensor], record: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
