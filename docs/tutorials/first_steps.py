# %% [markdown]
# # First steps
#
# `whence` says which words spoke **for** a decision of a recurrent model, and which **against** it. This
# tutorial explains sentences with the bundled model, reads the numbers, and asks a few questions of them.

# %%
import whence

pipeline = whence.load("sst-bilstm")
sentence = "neither funny nor suspenseful nor particularly well-drawn ."
explanation = whence.explain(pipeline, sentence)
explanation

# %% [markdown]
# A red word spoke for the class that is explained, a blue one against it; the strongest has full colour. The
# class is the one that the model predicts, unless you ask for another.
#
# ## The numbers
#
# Every token has a signed relevance.

# %%
for token, relevance in zip(explanation.tokens, explanation.relevance, strict=True):
    print(f"{relevance:+.3f}  {token}")

# %% [markdown]
# They are shares of one number, the score (logit) of the class. What the words do not account for was
# *absorbed*: by biases, by the stabiliser of the rules, by the initial state. Together they are the score,
# and `whence` checks that for every answer.

# %%
words = sum(explanation.relevance)
absorbed = sum(explanation.absorbed.values())
print(f"words {words:+.3f}, absorbed {absorbed:+.3f}, score {explanation.score:+.3f}")
assert abs(words + absorbed - explanation.score) < 1e-4
explanation.absorbed

# %% [markdown]
# ## Another class, or one class against another
#
# The same words speak differently for another class. `contrast` explains a difference of two scores: here,
# what speaks for *negative* rather than *very negative*.

# %%
whence.explain(pipeline, "not a waste of time", target="positive")

# %%
target = whence.contrast("negative", "very negative")
whence.explain(pipeline, "not a waste of time", target=target)

# %% [markdown]
# ## Many texts
#
# A list of texts is explained in batches, and shows itself as a list.

# %%
whence.explain(
    pipeline,
    [
        "A thrilling, romantic and thoroughly entertaining must-see!",
        "The film is a horrible waste of two hours.",
        "It's not a waste of time: worthy, honest and often very funny.",
    ],
)

# %% [markdown]
# ## Is it true?
#
# An explanation can be tested: take away the words that it names, and see what the model does. `deleted` sets
# their vectors to zero, as the paper's experiment does. Without the two most relevant words, the score of the
# class falls.

# %%
relevance = explanation.relevance
most = sorted(range(len(relevance)), key=lambda n: -relevance[n])[:2]
without = whence.explain(pipeline, sentence, target=explanation.target, deleted=most)
print("without", *(explanation.tokens[n] for n in most))
print(f"score {explanation.score:+.3f} → {without.score:+.3f}")
assert without.score < explanation.score

# %% [markdown]
# One sentence shows little. `whence.evaluate` does this for many texts and all methods: see [comparing
# methods](comparing_methods.py).
#
# ## Keep it
#
# An explanation is plain data, ready for JSON.

# %%
print(*explanation.to_dict())
