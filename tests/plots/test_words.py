"""Figures of explanations of texts: what is in them, not their pixels."""

from dataclasses import replace

import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from whence.errors import InputError
from whence.explanation import Explanation
from whence.explanations import Explanations
from whence.plots import plot
from whence.render.colour import shades


def explanation(text: str = "not a waste of time", relevance: tuple[float, ...] = (2.0, 0.0, -1.0, 0.5, -0.25)) -> Explanation:
    tokens = tuple(text.split())
    spans, place = list[tuple[int, int]](), 0
    for token in tokens:
        place = text.index(token, place)
        spans.append((place, place + len(token)))
        place += len(token)
    scores, unknown = {"good": 1.5, "bad": -1.5}, (False,) * len(tokens)
    return Explanation(text, tokens, tuple(spans), unknown, relevance, scores, "good", "good", {"name": "lrp"})


def seen(figure: Figure) -> dict[str, Text]:
    figure.draw_without_rendering()
    return {text.get_text(): text for text in figure.findobj(Text) if text.get_text()}


def test_words_have_the_colours_of_the_page() -> None:
    given = explanation()
    found = seen(plot(given))
    for token, shade in zip(given.tokens, shades(given), strict=True):
        box = found[token].get_bbox_patch()
        assert box is not None
        assert tuple(round(255 * part) for part in to_rgb(box.get_facecolor())) == shade.mixed()
    assert "LRP for good: +1.5" in found
    assert {"for", "against"} <= set(found)


def test_words_wrap_and_do_not_overlap() -> None:
    words = " ".join(f"word{n}" for n in range(60))
    figure = plot(explanation(words, tuple(float(n) for n in range(60))))
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.findobj(Text) if text.get_text().startswith("word")]
    assert len(boxes) == 60 and len({round(box.y0) for box in boxes}) > 2
    assert not any(one.overlaps(other) for n, one in enumerate(boxes) for other in boxes[:n])
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 for box in boxes)


def test_a_method_without_sign_only_matters() -> None:
    given = replace(explanation(), is_signed=False, method={"name": "sa"}, relevance=(1.0, 0.0, 2.0, 3.0, 0.5))
    assert "against" not in seen(plot(given)) and "matters" in seen(plot(given))


def test_bars_keep_the_order_of_the_text() -> None:
    (axes,) = plot(explanation(), "bars").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["not", "a", "waste", "of", "time"]
    widths = [bar.get_width() for bar in axes.patches]  # pyright: ignore[reportAttributeAccessIssue] - bars
    assert widths == [2.0, 0.0, -1.0, 0.5, -0.25]


def test_bars_of_a_long_text_say_what_is_left_out() -> None:
    given = explanation(" ".join(f"w{n}" for n in range(100)), tuple(float(n) for n in range(100)))
    (axes,) = plot(given, "bars").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"w{n}" for n in range(60, 100)]
    assert "60 others are left out" in axes.get_title(loc="left")


def test_top_words_are_summed_over_all_texts() -> None:
    given = Explanations([explanation(), explanation("Not a joy", (1.0, -4.0, 3.0))])
    (axes,) = plot(given, "top").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "joy ×1", "not ×2", "of ×1", "time ×1", "waste ×1", "a ×2"
    ]  # fmt: skip
    assert [bar.get_width() for bar in axes.patches] == [3.0, 3.0, 0.5, -0.25, -1.0, -4.0]  # pyright: ignore[reportAttributeAccessIssue]
    assert axes.get_title(loc="left") == "LRP for good,\nsummed over 2 texts"


def test_many_texts_are_drawn_as_their_top_words_and_few_as_words() -> None:
    few, many = Explanations([explanation()] * 3), Explanations([explanation()] * 13)
    assert not plot(few).axes[0].patches and len(plot(many).axes[0].patches) == 4
    assert "… and 5 more texts" in seen(plot(Explanations([explanation()] * 25), "words"))


def test_texts_are_shown_as_they_are_never_as_formulas() -> None:
    given = explanation("costs $5 or $6 \u202eevil", (1.0, 2.0, 0.0, 1.0, 0.5))
    for kind in ("words", "bars", "top"):
        figure = plot(given, kind)
        found = seen(figure)
        assert any("$5" in text for text in found) and not any("\u202e" in text for text in found)
        assert not any(text.get_parse_math() for name, text in found.items() if "$" in name)  # pyright: ignore[reportAttributeAccessIssue]


def test_words_fit_into_axes_of_the_user() -> None:
    figure = Figure(figsize=(4, 4))
    axes = figure.subplots()
    assert plot(explanation(), ax=axes) is figure
    boxes = [text.get_window_extent() for name, text in seen(figure).items() if name in explanation().tokens]
    assert len(boxes) == 5 and max(box.x1 for box in boxes) <= axes.get_window_extent().x1


BAD = [
    ("heatmap", {}, "kind='heatmap' draws series of numbers; for texts, the kinds are words, bars, top"),
    ("bars", {"inputs": torch.ones(2)}, "inputs= is for series of numbers; leave it out for texts"),
    ("bars", {"last": 3}, "last= is for series of numbers; leave it out for texts"),
]


@pytest.mark.parametrize(("kind", "settings", "message"), BAD)
def test_what_does_not_fit_a_text_is_refused(kind: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plot(explanation(), kind, **settings)  # pyright: ignore[reportArgumentType] - the test is that it is refused


def test_bars_are_of_one_text_and_top_words_need_relevance() -> None:
    with pytest.raises(InputError, match="kind='bars' draws one text, and 2 were given"):
        plot([explanation(), explanation()], "bars")
    with pytest.raises(InputError, match="all relevance is 0, so no word comes first"):
        plot(explanation(relevance=(0.0,) * 5), "top")
