"""Labels of a corpus as classes, so that right and wrong predictions can be told apart."""

from whence.corpus.layout import arrow
from whence.corpus.learned.classes import class_named
from whence.corpus.learned.opening import Opened
from whence.errors import InputError

MOST = 10_000  # different labels


def add_judged(corpus: Opened) -> list[str]:
    """Add the view `judged`: `texts` whose label is a class, with that class as `truth`, and the sign of a word's pull.

    `sign` is 1 where the predicted class was explained: relevance pulls towards it. It is −1 where only the label's class was:
    relevance pulls away from the prediction. Where neither was, it is null. Returns notes on labels that are no classes.
    """
    if not corpus.has_labels:
        raise InputError(f"{corpus.place} has no labels; explain it again with whence corpus explain --label COLUMN")
    found = corpus.rows(f"SELECT label, count(DISTINCT row) AS texts FROM texts GROUP BY label LIMIT {MOST + 1}")
    if len(found) > MOST:
        raise InputError(f"{corpus.place} has more than {MOST:,} different labels, so they are no classes")
    known = {row["label"]: class_named(corpus.classes, row["label"]) for row in found if row["label"] is not None}
    classes = {label: name for label, name in known.items() if name is not None}
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


def _told(strange: list[tuple[str | None, int]], classes: tuple[str, ...]) -> list[str]:
    if not strange:
        return []
    texts = sum(count for _, count in strange)
    first = min((label for label, _ in strange if label is not None), default=None)
    such = "it is missing" if first is None else f"such as {first!r}"
    return [f"{texts:,} texts are left out because their label is no class ({such}); classes are {', '.join(classes)}"]
