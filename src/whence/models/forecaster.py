"""A forecaster: one recurrent layer over a series, and a linear head that gives the forecasts for all horizons."""

from dataclasses import asdict, dataclass

from torch import Tensor, nn

from whence.models.classifier import CELLS, Cell


@dataclass(frozen=True)
class ForecasterArchitecture:
    """The sizes of a `Forecaster`."""

    features: int
    outputs: int
    cell: Cell = "lstm"
    hidden: int = 32

    def settings(self) -> dict[str, int | str]:
        """As plain data, for config.json."""
        return asdict(self)


class Forecaster(nn.Module):
    """A linear layer without bias on the states of a recurrent layer; the last step's forecasts are its output."""

    def __init__(self, architecture: ForecasterArchitecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.encoder = CELLS[architecture.cell](architecture.features, architecture.hidden, batch_first=True)
        self.head = nn.Linear(architecture.hidden, architecture.outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The forecasts (B, K) after the last step of series (B, T, F)."""
        return self.head(self.encoder(x)[0][:, -1])

    def every_step(self, x: Tensor) -> Tensor:
        """The forecasts (B, T, K) after every step, as training uses them."""
        return self.head(self.encoder(x)[0])
