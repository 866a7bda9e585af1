"""pyarrow, which comes with an extra."""

from typing import Any, cast

from whence.errors import DataError


def arrow() -> Any:
    """pyarrow with its Parquet files, or an error that says how to install it."""
    try:
        import pyarrow  # pyright: ignore[reportMissingTypeStubs]
        import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs, reportUnusedImport]
    except ImportError:
        raise DataError("Parquet files, Arrow tables and corpora need pyarrow; run: pip install 'whence[corpus]'") from None
    return cast(Any, pyarrow)
