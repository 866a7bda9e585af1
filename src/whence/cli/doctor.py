"""`whence doctor`: versions, devices, and which path a recurrent layer takes and why."""


def doctor() -> None:
    """Show versions and devices, and which path recurrent layers take here and why."""
    import platform

    import torch

    from whence import __version__
    from whence.recurrent.cells import CELLS
    from whence.recurrent.dispatch import path

    print(f"whence {__version__}, PyTorch {torch.__version__}, Python {platform.python_version()}")
    print(f"PyTorch uses {torch.get_num_threads()} threads")
    print(f"GPU: {torch.cuda.get_device_name() if torch.cuda.is_available() else 'none that PyTorch can use'}")
    devices = {"the CPU": "cpu", **({"the GPU": "cuda"} if torch.cuda.is_available() else {})}
    for where, device in devices.items():
        for cell in CELLS.values():
            weights = cell.weights(*cell.module(2, 2).parameters(), has_biases=True)
            for dtype in (torch.float32, torch.float64):
                taken = path(cell, weights, torch.zeros(1, 1, 2, dtype=dtype, device=device), product="all")
                print(f"{cell.label} on {where}, {str(dtype).removeprefix('torch.')}: {taken.name} ({taken.reason})")
    x = torch.zeros(1, 1, 2)
    for cell in CELLS.values():
        taken = path(cell, cell.weights(*cell.module(2, 2).parameters(), has_biases=True), x, product="half")
        print(f'{cell.label} with product="half", "prop" or "abs": {taken.name} ({taken.reason})')
        for label, module in cell.variants:
            taken = path(cell, cell.weights(*module(2, 2).parameters(), has_biases=True), x, product="all")
            print(f"{label}: {taken.name} ({taken.reason})")
