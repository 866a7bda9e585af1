# %% [markdown]
# # Comparing methods
#
# Nine methods explain a model, and they disagree. Which one to believe is a question with an answer: take
# away what a method names, and see what the model does.

# %%
import whence

pipeline = whence.load("sst-bilstm")
sentence = "The film is a horrible waste of two hours, not even a thrilling disaster."
methods = ["lrp", "sa", "gi", "ig", "occlusion", "random"]
explanations = [whence.explain(pipeline, sentence, method=method) for method in methods]
for each in explanations:
    largest = sorted(zip(each.relevance, each.tokens, strict=True), reverse=True)[:3]
    words = ", ".join(f"{token} {relevance:+.2f}" for relevance, token in largest)
    print(f"{each.method['name']:10}", words)

# %% [markdown]
# Sensitivity analysis has no sign: it says where the score would *change*, not what it is made of. LRP and
# Integrated Gradients add up to something; random relevance is what any of them has to beat.

# %%
explanations[0]

# %%
explanations[1]

# %% [markdown]
# ## Measured
#
# `whence.evaluate` deletes the most relevant words, one after another, and watches the model's probability;
# it reports every measure with an interval, beside random relevance. Use a few hundred texts of your own,
# with their labels. Here are two dozen, to be quick; without labels, the predicted class is explained.

# %%
texts = """
    A moving and often very funny film about two old friends who meet again.
    The jokes are stale, the story is dull and the ending makes no sense at all.
    It is not a bad film, but there is nothing in it that you have not seen before.
    Beautifully acted, carefully written and never for a moment boring.
    I wanted to like it, but the second half is a tedious mess.
    An honest and gripping drama that stays with you for days.
    What a waste of a talented cast and of two hours of my life.
    The music is lovely, although the plot could have been better.
    Nobody in this silly, loud and lifeless thriller deserves to survive it.
    A charming comedy with a warm heart and a sharp eye for detail.
    Too long by half, and too pleased with itself to notice.
    It never tries to be clever, and that is the best thing about it.
    The worst sequel of the year, without wit, style or reason.
    A small masterpiece that is as tender as it is fierce.
    Neither frightening nor funny, it just goes on and on.
    The two leads are wonderful together and save a weak script.
    A lazy collection of scenes that were better in other films.
    You will laugh, you will cry, and you will want to see it again.
    An ambitious failure that is still worth watching once.
    Pretentious, hollow and painfully slow.
    The director has made a fresh and fearless debut.
    There is some fun to be had, if you do not expect too much.
    A confused and clumsy story that wastes its brilliant idea.
    Smart, stylish and full of surprises until the very last scene.
"""
texts = [line.strip() for line in texts.strip().splitlines()]
evaluation = whence.evaluate(pipeline, texts, methods=["lrp", "gi", "sa"])
print(evaluation)

# %% [markdown]
# `evaluation.save(folder)` writes a report to read and `results.json`. The leaderboard of the bundled models
# on 2,210 sentences is in [Which explanation can be trusted](../evaluate.md#leaderboard), tasks whose right
# answer is known are in [Ground truth](../ground_truth.md).
#
# ## As data
#
# The same table as a list of dictionaries; `evaluation.results` has every number.

# %%
for row in evaluation.table():
    price = "–" if row["ms per text"] is None else f"{row['ms per text']:.2f}"
    print(f"{row['method']:8} separation {row['separation']:+.3f}   ms per text {price}")
