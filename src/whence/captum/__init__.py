"""LRP as a Captum attribution: where `IntegratedGradients(model)` is, `whence.captum.LRP(model)` can be.

`import whence` does not import this folder, so that Captum stays optional.
"""

from importlib.util import find_spec

from whence.errors import InputError

if find_spec("captum") is None:
    raise InputError("whence.captum needs Captum; run: pip install 'whence[captum]'")

from whence.captum.attribution import LRP, LayerLRP

__all__ = ["LRP", "LayerLRP"]
