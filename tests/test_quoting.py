"""Quotes in error messages are short and on one line."""

from whence.quoting import quoted, shortened


def test_a_quote_is_short_and_on_one_line() -> None:
    assert quoted("a  b\n") == r"'a  b\n'"
    assert shortened("two\n lines") == "two lines"
    assert shortened("x" * 200) == "x" * 200
    assert shortened("x" * 201) == "x" * 200 + "…"
    for value in ("x" * 10**6, 10**4000, [["x" * 90] * 90] * 90, dict.fromkeys(range(90), "x" * 90)):
        assert len(quoted(value)) <= 201
