"""What can go wrong, said in the user's words: what happened, what was needed, what to do."""


class WhenceError(Exception):
    """Everything whence raises on purpose."""


class InputError(WhenceError, ValueError):
    """The inputs, the lengths or a setting cannot be used as given."""


class TargetError(WhenceError, ValueError):
    """The target names no score of this model."""


class WeightsError(WhenceError, ValueError):
    """The model's weights cannot be used as they are."""


class NoRuleError(WhenceError, NotImplementedError):
    """The model computed something through which no rule hands relevance back."""


class ConservationError(WhenceError, ArithmeticError):
    """Relevance and absorbed amounts do not add up to the score."""


class DataError(WhenceError, ValueError):
    """A file of data or vectors is not what it should be."""


class ModelError(WhenceError, ValueError):
    """A saved model cannot be loaded or used."""
