"""Labels of a corpus as classes, so that right and wrong predictions can be told apart."""

from whence.corpus.learned.classes import number_of
from whence.corpus.learned.opening import Opened
from whence.data.arrow import arrow
from whence.errors import InputError
from whence.models.labels import class_of_label

MOST = 10_000  # different labels


class LabelsError(InputError):
    """The labels of a corpus cannot be read as classes."""


def add_judged(corpus: Opened) -> list[str]:
    """Add the view `judged`: `texts` whose label is a class, with that class as `truth`, and the sign of a word's pull.

    `sign` is 1 where the predicted class was explained: relevance pulls towards it. It is −1 where only the label's class was:
    relevance pulls away from the prediction. Where neither was, it is null. Returns notes on labels that are no classes.
    """
    if not corpus.has_labels:
        raise InputError(f"{corpus.place} has no labels; explain it again with whence corpus explain --label COLUMN")
    if len(corpus.classes) == 1:
        raise LabelsError(
            f"the model of {corpus.place} has one class, {corpus.classes[0]}, so no prediction is right or wrong; name the two "
            "classes that its output tells apart, and explain the texts again"
        )
    found = corpus.rows(f"SELECT label, count(DISTINCT row) AS texts FROM texts GROUP BY label LIMIT {MOST + 1}")
    if len(found) > MOST:
        raise LabelsError(f"{corpus.place} has more than {MOST:,} different labels, so they are no classes")
    _require_counted_from_0(corpus, [row["label"] for row in found if row["label"] is not None])
    known = {row["label"]: class_of_label(corpus.classes, row["label"]) for row in found if row["label"] is not None}
    classes = {label: corpus.classes[number] for label, number in known.items() if number is not None}
    pa = arrow()
    kinds = pa.schema([("label", pa.string()), ("truth", pa.string())])
    rows = [{"label": label, "truth": name} for label, name in classes.items()]
    corpus.connection.register("classes_of_labels", pa.Table.from_pylist(rows, schema=kinds))
    is_fixed = corpus.manifest.get("target") not in ("predicted", "all")
    other = "WHEN target = truth THEN -1" if is_fixed and corpus.is_signed else ""
    corpus.run(
        f"CREATE OR REPLACE TEMP VIEW judged AS SELECT texts.*, truth, CASE WHEN target = predicted THEN 1 {other} END AS sign"
        " FROM texts JOIN classes_of_labels USING (label)"
    )
    return _told([(row["label"], row["texts"]) for row in found if row["label"] not in classes], corpus.classes)


def _require_counted_from_0(corpus: Opened, labels: list[str]) -> None:
    """Refuse labels such as one to five stars for five classes: every label but the last would stand for the next class."""
    numbers = {label: number_of(corpus.classes, label) for label in labels}
    has_names = any(numbers[label] is None and class_of_label(corpus.classes, label) is not None for label in labels)
    if not has_names and 0 not in numbers.values() and len(corpus.classes) in numbers.values():
        last = len(corpus.classes) - 1
        raise LabelsError(
            f"the labels of {corpus.place} are numbers from 1 on; classes are counted from 0: 0 is {corpus.classes[0]} and "
            f"{last} is {corpus.classes[last]}; subtract 1 from the labels, or write class names, and explain the texts again"
        )


def _told(strange: list[tuple[str | None, int]], classes: tuple[str, ...]) -> list[str]:
    if not strange:
        return []
    texts = sum(count for _, count in strange)
    written = [(-count, label) for label, count in strange if label is not None and label.strip()]
    such = f"most often {min(written)[1]!r}, {-min(written)[0]:,} times" if written else "it is missing"
    return [f"{texts:,} texts are left out because their label is no class ({such}); classes are {', '.join(classes)}"]
