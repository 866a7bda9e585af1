"""Checkpoints: the tensors and the record of a training run in one file, with a hash that reveals damage."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from whence.errors import ModelError
from whence.models.files import write_whole
from whence.quoting import shortened


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], record: Mapping[str, str]) -> None:
    """Write tensors and record, completely or not at all."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_whole(path, save(plain, metadata={**record, "sha256": _digest(plain, record)}))


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and the record of a file; a file that was changed since, or is not finite, is refused."""
    if not path.is_file():
        raise ModelError(f"{path} is not a regular file; remove it to start over")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:  # pyright: ignore[reportUnknownVariableType] - without types
            record = dict(cast(dict[str, str] | None, file.metadata()) or {})
            tensors = {name: cast(Tensor, file.get_tensor(name)) for name in cast(list[str], file.keys())}
    except (SafetensorError, RuntimeError, OSError) as error:
        raise ModelError(f"{path} is not a checkpoint: {shortened(error)}; remove it to start over") from None
    if record.pop("sha256", None) != _digest(tensors, record):
        raise ModelError(f"{path} is damaged; remove it to start over")
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise ModelError(f"{path}: {name} holds numbers that are not finite; remove it to start over")
    return tensors, record


def _digest(tensors: Mapping[str, Tensor], record: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
