"""The options of one layer, read from an untrusted file: each is checked, and those that are not known are refused by name."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from whence.errors import ModelError
from whence.imports.keras.activations import ACTIVATIONS
from whence.quoting import quoted

LARGEST = 2**24  # of a size in a file: units, classes, words

# What has no influence on a prediction.
TRAINING = """
    name trainable dtype dtype_policy autocast registered_name batch_input_shape batch_shape input_shape input_length dropout
    recurrent_dropout seed implementation unroll stateful unit_forget_bias noise_shape rate stddev l1 l2
    momentum synchronized sparse ragged optional build_config compile_config quantization_config lora_rank lora_alpha
    input_dtype renorm_momentum renorm_clipping virtual_batch_size flash_attention use_cudnn fused
""".split()
TRAINING_ENDS = ("_initializer", "_regularizer", "_constraint")


class Options:
    """A layer's options. What was read is kept in `taken`, in the form in which it is saved."""

    def __init__(self, values: object, *, version: int = 3) -> None:
        if not isinstance(values, dict):
            raise ModelError(f"its options are {quoted(values)}, which is no object")
        self.values, self.version = cast(dict[str, Any], values), version
        self.taken: dict[str, Any] = {}

    def _take(self, key: str, default: object) -> Any:
        value: Any = self.values.get(key, default)
        entry = cast(dict[str, Any], value) if isinstance(value, dict) else {}
        self.taken[key] = entry.get("items") if entry.get("class_name") == "__tuple__" else value
        return self.taken[key]

    def _refuse(self, key: str, value: object, needed: str) -> ModelError:
        return ModelError(f"{key} is {quoted(value)}; {needed}")

    def size(self, key: str, default: object = None, *, least: int = 1, largest: int = LARGEST) -> int:
        """A whole number, also written as a list of one."""
        found: Any = self._take(key, default)
        several = cast(list[Any], found) if isinstance(found, list) else []
        value: Any = several[0] if len(several) == 1 else cast(Any, found)
        if not _is_whole(value) or not least <= value <= largest:
            raise self._refuse(key, value, f"it must be a whole number from {least} to {largest}")
        self.taken[key] = value
        return value

    def sizes(self, key: str, *, count: int | None = None, least: int = 1) -> list[int]:
        """A list of whole numbers; a single one stands for `count` of them."""
        value: Any = self._take(key, None)
        found: Any = [value] * (count or 1) if _is_whole(value) else value
        if not isinstance(found, list) or len(cast(list[Any], found)) > 8:
            raise self._refuse(key, value, "it must be a short list of whole numbers")
        found = cast(list[Any], found)
        if (count is not None and len(found) != count) or not all(_is_whole(n) and least <= n <= LARGEST for n in found):
            raise self._refuse(key, found, f"it must hold {count or 'some'} whole numbers from {least} to {LARGEST}")
        self.taken[key] = found
        return found

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false; null stands for the default."""
        value = self._take(key, default)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self._refuse(key, value, "it must be true or false")
        self.taken[key] = value
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        value = self._take(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_finite(value):
            raise self._refuse(key, value, "it must be a finite number")
        self.taken[key] = float(value)
        return float(value)

    def optional_number(self, key: str) -> float | None:
        """A finite number, or None."""
        if self.values.get(key) is None:
            self.taken[key] = None
            return None
        return self.number(key)

    def numbers(self, key: str) -> float | list[float] | None:
        """A finite number, a list of some, or None."""
        value = cast(float | list[float] | None, self._take(key, None))
        found: Sequence[object] = value if isinstance(value, list) else [value]
        are_numbers = all(isinstance(n, (int, float)) and not isinstance(n, bool) and _is_finite(n) for n in found)
        if value is not None and not (are_numbers and 1 <= len(found) <= LARGEST):
            raise self._refuse(key, value, "it must be a finite number or a list of them")
        return value

    def choice(self, key: str, choices: Sequence[str | None], default: str | None = None) -> str | None:
        """One of several words."""
        value = self._take(key, default)
        if not (value is None or isinstance(value, str)) or value not in choices:
            known = ", ".join(str(choice) for choice in choices)
            raise self._refuse(key, value, f"known are {known}")
        return value

    def activation(self, key: str = "activation", default: str = "linear") -> str:
        """The name of an activation; Keras 2 and 3 call different functions hard_sigmoid."""
        value: Any = self._take(key, default)
        value = "linear" if value is None else value
        if isinstance(value, dict):
            value = _serialised_activation(cast(dict[str, Any], value))
        if value == "hard_sigmoid" and self.version < 3:
            value = "hard_sigmoid_2"
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise self._refuse(key, value, f"known are {', '.join(ACTIVATIONS)}")
        self.taken[key] = value
        return value

    def layer(self, key: str) -> tuple[str, "Options"]:
        """A layer inside the layer: its class and its options, which are checked with it."""
        value: Any = self._take(key, None)
        if not isinstance(value, dict) or not isinstance(cast(dict[str, Any], value).get("class_name"), str):
            raise self._refuse(key, cast(object, value), "it must be a layer")
        found = cast(dict[str, Any], value)
        inner = Options(found.get("config"), version=self.version)
        self.taken[key] = {"class_name": found["class_name"], "config": inner.taken}
        return found["class_name"], inner

    def require_nothing_else(self) -> None:
        """Refuse options that were not read, unless they only matter in training or are switched off."""
        for key, value in self.values.items():
            is_known = key in self.taken or key in TRAINING or key.endswith(TRAINING_ENDS)
            if not is_known and value is not None and value is not False and value != {} and value != []:
                raise ModelError(f"its option {quoted(key)} = {quoted(value)} is not supported")


class Shapes:
    """The shapes of a layer's weights in Keras' order, each compared with what the layer needs."""

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        self._left = [tuple(shape) for shape in shapes]

    def next(self, name: str, *expected: int | None) -> tuple[int, ...]:
        """The next weight's shape; None in the expected one stands for any size."""
        if not self._left:
            raise ModelError(f"its weight {name} is missing")
        shape = self._left.pop(0)
        fits = len(shape) == len(expected) and all(e in (None, n) and n > 0 for n, e in zip(shape, expected, strict=True))
        if not fits:
            needed = ", ".join("any" if size is None else str(size) for size in expected)
            raise ModelError(f"its weight {name} is {shape}; it must be ({needed})")
        return shape

    def any(self, name: str) -> tuple[int, ...]:
        """The next weight's shape, whatever it is."""
        if not self._left:
            raise ModelError(f"its weight {name} is missing")
        return self._left.pop(0)

    def require_no_more(self) -> None:
        """Refuse weights that the layer does not have."""
        if self._left:
            raise ModelError(f"it has {len(self._left)} weights too many")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _serialised_activation(found: Mapping[str, Any]) -> object:
    """Keras 2.13 to 2.15 write the name of a function in an object."""
    if found.get("module") in ("builtins", "keras.activations") and isinstance(found.get("config"), str):
        return found["config"]
    return dict(found)
