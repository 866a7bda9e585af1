"""Series of numbers explained in bulk: the rows of a part in, a table of their relevance out."""

from dataclasses import dataclass, replace
from typing import Any, cast

from whence._series import SeriesExplanation, explain_series
from whence.corpus.layout import series_schema
from whence.corpus.parts import ASKED, Explained, Part, Rejected, asked_about
from whence.data.arrow import arrow
from whence.data.rows import Row
from whence.errors import InputError, WhenceError
from whence.methods.lrp import LRP
from whence.methods.method import Method
from whence.models.series import SeriesModel
from whence.threads import one_thread


@dataclass(frozen=True)
class SeriesTask:
    """How series are explained, one by one; a pure function of the rows of a part, wherever it runs."""

    model: SeriesModel
    output: int | str
    method: Method
    columns: int  # in which a series lies: one of rows (T, F), or one for every feature
    has_labels: bool = False
    longest: int = 2**15  # steps of a series
    device: str | None = None

    def start(self) -> None:
        """Move the module to its device."""
        if self.device is not None:
            self.model.module.to(self.device)

    def explain(self, part: Part) -> Explained:
        """Explain the series of a part, in order; what cannot be explained is rejected with its reason."""
        found: dict[int, tuple[list[Any], SeriesExplanation]] = {}
        rejected: list[Rejected] = []
        with one_thread():
            for n, row in enumerate(part.rows):
                try:
                    values = self._values(row)
                    found[n] = values, explain_series(self.model, values, output=self.output, method=self.method)
                except WhenceError as error:
                    rejected.append(Rejected(part.first + n, row.id, str(error)))
            asked = self._asked(found) if part.number == 0 and self.method.is_signed else None
        return Explained(self._table(part, found), rejected, asked)

    def _asked(self, found: dict[int, tuple[list[Any], SeriesExplanation]]) -> dict[str, object]:
        """What the model itself says of the first rows."""
        method = replace(self.method, strict=False) if isinstance(self.method, LRP) else self.method
        doubts: dict[int, list[str | None]] = {}
        for n in filter(ASKED.__gt__, found):
            again = explain_series(self.model, found[n][0], output=self.output, method=method, check="model")
            doubts[n] = [again.doubt]
        return asked_about(doubts)

    def _values(self, row: Row) -> list[Any]:
        """The values of a row, step by step."""
        if row.problem:
            raise InputError(row.problem)
        columns = cast(list[object], row.content if self.columns > 1 else [row.content])
        if not all(isinstance(each, list) and each != [] for each in columns):
            raise InputError("there is no series: give a list of numbers, or a list of rows of numbers")
        series = cast(list[list[Any]], columns)
        lengths = sorted(map(len, series))
        if lengths[0] != lengths[-1]:
            raise InputError(f"the columns of the series have {lengths[0]} to {lengths[-1]} steps; give the same for all")
        values: list[Any] = [list(step) for step in zip(*series, strict=True)] if self.columns > 1 else series[0]
        if len(values) > self.longest:
            raise InputError(f"the series is too long: {len(values):,} steps; at most {self.longest:,}")
        return values

    def _table(self, part: Part, found: dict[int, tuple[list[Any], SeriesExplanation]]) -> Any:
        columns: dict[str, Any] = {
            "row": [part.first + n for n in found],
            "id": [part.rows[n].id for n in found],
            "values": [[step if isinstance(step, list) else [step] for step in values] for values, _ in found.values()],
            "relevance": [each.relevance for _, each in found.values()],
            "target": [each.output for _, each in found.values()],
            "score": [each.score for _, each in found.values()],
            "scores": [list(each.outputs.values()) for _, each in found.values()],
            "absorbed": [list(each.absorbed.items()) for _, each in found.values()],
            "label": [part.rows[n].label for n in found],
        }
        schema = series_schema(label=self.has_labels)
        return arrow().table({name: columns[name] for name in schema.names}, schema=schema)
