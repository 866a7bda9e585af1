"""Short sentences of clear sentiment, written for this suite, so that it needs no data."""

POSITIVE = """
    a warm and funny film with a wonderful cast
    the story is beautiful and deeply moving
    this is one of the best films of the year
    a brilliant and original comedy
    the acting is superb and the music is lovely
    an excellent script and a charming hero
    i loved every minute of it
    a touching and honest portrait of a family
    it is clever , fresh and very entertaining
    a gorgeous film full of life and joy
    the performances are powerful and convincing
    a delightful surprise from start to finish
    smart , witty and a pleasure to watch
    a masterpiece that will stay with you
    the most enjoyable movie i have seen this summer
    a thrilling ride with a perfect ending
    tender , wise and beautifully made
    an inspiring tale told with great skill
    the director has made a remarkable debut
    a refreshing and hilarious adventure
""".strip()

NEGATIVE = """
    a dull and lifeless film with a terrible cast
    the story is stupid and painfully slow
    this is one of the worst films of the year
    a boring and predictable comedy
    the acting is awful and the music is annoying
    a weak script and a tedious hero
    i hated every minute of it
    a shallow and pointless portrait of a family
    it is silly , stale and very disappointing
    an ugly film full of noise and nonsense
    the performances are wooden and unconvincing
    a miserable failure from start to finish
    clumsy , pretentious and a pain to watch
    a disaster that wastes your time
    the most irritating movie i have seen this summer
    a bland mess with a ridiculous ending
    empty , confused and badly made
    a lazy tale told without any skill
    the director has made a forgettable debut
    a tiresome and unfunny adventure
""".strip()


def sentences() -> list[tuple[str, str]]:
    """Pairs of a sentence and its class in the bundled models of sentiment."""
    groups = {"very positive": POSITIVE, "very negative": NEGATIVE}
    return [(line.strip(), name) for name, lines in groups.items() for line in lines.splitlines()]
