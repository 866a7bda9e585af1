"""The errors of whence. Each message says what happened, what was needed, and what to do."""


class WhenceError(Exception):
    """The base class of all errors that whence raises."""


class InputError(WhenceError, ValueError):
    """The inputs, the lengths or a setting cannot be used as given."""


class TargetError(WhenceError, ValueError):
    """The target does not name a score of this model."""


class WeightsError(WhenceError, ValueError):
    """The model's weights cannot be used as they are."""


class NoRuleError(WhenceError, NotImplementedError):
    """The model called a function for which there is no rule."""


class ConservationError(WhenceError, ArithmeticError):
    """Relevance and absorbed amounts do not add up to the score."""


class DataError(WhenceError, ValueError):
    """A file of data or word vectors is missing, damaged or of another kind."""


class ModelError(WhenceError, ValueError):
    """A saved model cannot be loaded or used."""
