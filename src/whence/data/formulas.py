"""Cells of CSV files that a spreadsheet would run as a formula."""

STARTS = ("=", "+", "-", "@", "\t", "\r")  # of what spreadsheets read as a formula


def inert(cell: object) -> object:
    """A cell that is only shown: a text that starts like a formula gets an apostrophe in front, as on the page."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(STARTS) else cell
