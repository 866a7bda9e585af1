"""`whence doctor`: versions, devices, and which path a recurrent layer takes and why."""


def doctor() -> None:
    """Show versions and devices, and which path recurrent layers take here and why."""
    import platform
    from typing import Any

    import torch
    from torch import nn

    from whence import __version__
    from whence.equations import Product
    from whence.recurrent import dispatch
    from whence.recurrent.gru.weights import gru_weights
    from whence.recurrent.lstm.weights import lstm_weights
    from whence.recurrent.rnn.weights import rnn_weights

    print(f"whence {__version__}, PyTorch {torch.__version__}, Python {platform.python_version()}")
    print(f"PyTorch uses {torch.get_num_threads()} threads")
    print(f"GPU: {torch.cuda.get_device_name() if torch.cuda.is_available() else 'none that PyTorch can use'}")
    layers = {
        "nn.LSTM": lstm_weights(*nn.LSTM(2, 2).parameters(), has_biases=True),
        "nn.GRU": gru_weights(*nn.GRU(2, 2).parameters(), has_biases=True),
    }
    devices = {"the CPU": "cpu", **({"the GPU": "cuda"} if torch.cuda.is_available() else {})}
    for where, device in devices.items():
        for name, weights in layers.items():
            for dtype in (torch.float32, torch.float64):
                path = dispatch.path(weights, torch.zeros(1, 1, 2, dtype=dtype, device=device), product="all")
                print(f"{name} on {where}, {str(dtype).removeprefix('torch.')}: {path.name} ({path.reason})")
    others: dict[str, tuple[Any, Product]] = {
        "nn.RNN": (rnn_weights(*nn.RNN(2, 2).parameters(), has_biases=True), "all"),
        "nn.LSTM with a projection": (lstm_weights(*nn.LSTM(2, 2, proj_size=1).parameters(), has_biases=True), "all"),
        'any layer with product="half", "prop" or "abs"': (layers["nn.LSTM"], "half"),
    }
    for name, (weights, product) in others.items():
        path = dispatch.path(weights, torch.zeros(1, 1, 2), product=product)
        print(f"{name}: {path.name} ({path.reason})")
