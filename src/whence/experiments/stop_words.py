"""English stop words, spelled as SST spells them: words that hold a sentence together and have no meaning of their own."""

_WORDS = frozenset(
    """
    a an the this that these those some any all both each every either neither another such no one ones same other own
    i me my mine myself you your yours yourself he him his himself she her hers herself it its itself we us our ours ourselves
    they them their theirs themselves who whom whose which what whatever whoever someone something anyone anything everyone
    everything there here
    of in on at by for with about against between into through during before after above below to from up down out off over
    under upon within without along across behind beyond near since until till toward towards around among per via despite
    and but or nor so yet if because as than though although while whereas whether unless when whenever where wherever why how
    am is are was were be been being do does did doing done have has had having will would shall should can could may might must
    ca wo ai 's 're 've 'll 'm 'd 't n't not
    then once again also too very just only even more most much many few less least quite rather almost now ever still
    """.split()
)
_BRACKETS = frozenset("-lrb- -rrb- -lsb- -rsb- -lcb- -rcb-".split())


def is_stop_word(word: str) -> bool:
    """Whether a word is a stop word; punctuation counts as one."""
    return word in _WORDS or word in _BRACKETS or not any(character.isalnum() for character in word)
