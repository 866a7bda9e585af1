"""Changes of type, precision or device."""

import torch
from torch import Tensor

from whence.equations import Product
from whence.interpreter.record.held import Held
from whence.interpreter.record.step import Arguments, Rule, Value
from whence.interpreter.rules import linear, moves
from whence.interpreter.rules.linear import Map
from whence.interpreter.rules.routing import Routing
from whence.trees import leaves_of

CAST, RECAST = Routing(back=moves.cast, casts=True), Map(axes=linear.nowhere)


def cast_to(arguments: Arguments, held: Held, product: Product) -> Rule:
    """The rule for a change of type: to or from complex numbers, it is a linear map."""
    leaves = [leaf.tensor if isinstance(leaf, Value) else leaf for leaf in leaves_of(arguments)]
    is_complex = any(leaf.is_complex() for leaf in leaves if isinstance(leaf, Tensor))
    return RECAST if is_complex or any(leaf.is_complex for leaf in leaves if isinstance(leaf, torch.dtype)) else CAST
