# %% [markdown]
# # The paper, reproduced
#
# *Explaining Recurrent Neural Network Predictions in Sentiment Analysis* (Arras, Montavon, Müller, Samek,
# 2017) explains a bidirectional LSTM by LRP and tests the explanations by deleting words. The command `whence
# paper` recomputes all of it; this tutorial takes its steps one by one.
#
# With the Stanford Sentiment Treebank (`whence data sst`, then `WHENCE_SST` set to its folder) it uses a part
# of the test set, without it a few sentences like the paper's.

# %%
import os
from pathlib import Path

import whence
from whence.data.sst import read_split

if "WHENCE_SST" in os.environ:
    trees = read_split(Path(os.environ["WHENCE_SST"]), "test")[:200]
    texts, labels = [tree.tokens for tree in trees], [tree.label for tree in trees]
else:
    sample = {
        "it is a horrible waste of time that is neither funny nor suspenseful": 0,
        "what should be thrilling and romantic is a dull and repetitive disaster": 0,
        "a gorgeous , thrilling and honest film that is worthy of all its awards": 4,
        "an excellent and entertaining must-see , polished and full of charm": 4,
        "there is not a moment in this film that is worth your time or money": 0,
        "one of the best films of the year , moving and beautifully acted": 4,
    }
    texts, labels = [tuple(text.split()) for text in sample], list(sample.values())
print(len(texts), "sentences")

# %% [markdown]
# ## Figures 1 and 2: heatmaps
#
# The target is the *true* class. First sensitivity analysis, then LRP with the paper's settings, ε = 0.001
# and δ = 0.

# %%
pipeline = whence.load("sst-bilstm")
whence.explain(pipeline, texts[:4], target=labels[:4], method="sa")

# %%
method = whence.LRP(epsilon=1e-3, delta=0.0)
lrp = whence.explain(pipeline, texts, target=labels, method=method)
lrp[:4]

# %% [markdown]
# Sensitivity analysis reddens words whatever they say. LRP gives them a sign: words that speak against the
# true class are blue.
#
# ## Table 1: the most and the least relevant words
#
# For the class "very positive", over all sentences.

# %%
from whence.evaluation.ranking import distinct, ranked_words

explanations = whence.explain(pipeline, texts, target="very positive")
ranked = ranked_words(explanations)
print("most: ", *(each.word for each in distinct(ranked, 10)))
print("least:", *(each.word for each in distinct(reversed(ranked), 10)))

# %% [markdown]
# ## Figure 3: deleting words
#
# Of the sentences that the model gets right, the most relevant words are deleted first. The faster the
# accuracy falls, the better the explanation found what the model uses.

# %%
from whence.evaluation.deletion import deletion_curve, predictions_without, random_orders

right = [n for n, each in enumerate(lrp) if each.predicted == each.target]
right = [n for n in right if len(texts[n]) >= 10]
chosen, truth = [texts[n] for n in right], [labels[n] for n in right]
found = [lrp[n] for n in right]
curve = deletion_curve(pipeline, chosen, truth, found, order="decreasing", steps=5)

orders = random_orders([len(text) for text in chosen], seed=0)
by_chance = predictions_without(pipeline, chosen, orders, steps=5)
by_chance = by_chance == [[label] for label in truth]
print("deleted", *(f"{count:5}" for count in range(6)))
print("LRP    ", *(f"{value:5.2f}" for value in curve.mean(0)))
print("random ", *(f"{value:5.2f}" for value in by_chance.mean(0)))

# %% [markdown]
# ## Figure 4: where in the sentence
#
# The share of |relevance| in each tenth of a sentence.

# %%
from whence.evaluation.position import distribution, relevance_by_interval

by_tenth = relevance_by_interval([each.relevance for each in lrp], intervals=10)
shares = distribution(by_tenth)
print(" ".join(f"{share:.2f}" for share in shares))

# %% [markdown]
# ## All of it
#
# `whence paper --output paper` does this for all 2,210 sentences, with confidence bands, beside the published
# numbers, and tests the claims of the paper's text: [The paper, recomputed](../paper.md).
