"""The number of the rules that relevance is made by. Amounts made by different rules should not be compared.

1: an activation passes its relevance on as a whole; `contrast(a, "rest")` starts at a's probability. 2: an activation hands
back what the input changed from its value at rest; `contrast(a, "rest")` starts at the log-odds.
"""

RULES = 2
