# %% [markdown]
# # Your own PyTorch model
#
# `whence.relevance` explains any `nn.Module`, unmodified: no subclass, no hooks, no switch. This tutorial
# trains a small classifier of sequences whose right explanation is known, and explains it.
#
# ## A model, as you would write it
#
# The task: a sequence holds numbers, and two of them are marked. The model has to add the marked ones. A good
# explanation points to the two marked steps, with the numbers themselves as relevance.

# %%
import torch
from torch import nn

import whence
from whence.data.toy import sums

torch.manual_seed(0)
torch.set_num_threads(1)


class Adder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 8, batch_first=True)
        self.head = nn.Linear(8, 1, bias=False)

    def forward(self, x):  # (B, T, 3): an unmarked number, the first marked one, the second
        return self.head(self.lstm(x)[0][:, -1])


model, generator = Adder(), torch.Generator().manual_seed(0)
optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, total_iters=1000)
for step in range(1000):
    task = sums("add", 128, 4 + step % 7, generator)
    loss = nn.functional.mse_loss(model(task.x)[:, 0], task.y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    schedule.step()
print(f"mean squared error {loss.item():.4f}")

# %% [markdown]
# ## What will happen in it?
#
# Before anything is explained, `inspect` shows which rule every operation follows, what is a gate, and what
# absorbs relevance.

# %%
print(whence.inspect(model, task.x))

# %% [markdown]
# ## The explanation
#
# `by_step=True` gives one number per step. The model has one output, so no target is needed.

# %%
test = sums("add", 1, 8, generator)
result = whence.relevance(model, test.x, by_step=True)
numbers, marked = test.x[0].sum(-1), {test.a.item(), test.b.item()}
for t, relevance in enumerate(result.relevance[0]):
    mark = "  ← marked" if t in marked else ""
    print(f"step {t}: number {numbers[t]:+.2f}  relevance {relevance:+.3f}{mark}")
print(f"model {result.score.item():+.3f}, right answer {test.y.item():+.3f}")

# %% [markdown]
# `result.absorbed` is the rest of the ledger, and `check` verifies that everything adds up to the score; it
# has done so already.

# %%
result.check()

# %% [markdown]
# ## Does it hold beyond one sample?
#
# Over many sequences, the relevance of a marked step should correlate with its number.

# %%
many = sums("add", 500, 8, generator)
relevance = whence.relevance(model, many.x, by_step=True).relevance
rows = torch.arange(len(relevance))
found = torch.corrcoef(torch.stack([relevance[rows, many.a], many.numbers[0]]))[0, 1]
print(f"correlation of relevance and number, first marked step: {found:.3f}")
assert found > 0.9

# %% [markdown]
# ## Padded and packed batches
#
# With `lengths`, every sample is explained as if it were alone, and padding gets exactly 0. A
# `PackedSequence` works as well.

# %%
padded = torch.zeros(2, 8, 3)
padded[0], padded[1, :5] = many.x[0], sums("add", 1, 5, generator).x[0]
result = whence.relevance(model, padded, lengths=[8, 5], by_step=True)
assert (result.relevance[1, 5:] == 0).all()
result.relevance[1]

# %% [markdown]
# ## Cells written by hand
#
# Nothing has to be an `nn.LSTM`. Which factor of a product is the gate is found by where it comes from;
# `result.choices` lists what had to be decided.


# %%
class MinimalGatedUnit(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.candidate = nn.Linear(3 + 8, 8), nn.Linear(3 + 8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        h = x.new_zeros(len(x), 8)
        for step in x.unbind(1):
            f = torch.sigmoid(self.gate(torch.cat([step, h], -1)))
            n = torch.tanh(self.candidate(torch.cat([step, f * h], -1)))
            h = (1 - f) * h + f * n
        return self.head(h)


result = whence.relevance(MinimalGatedUnit(), many.x[:4], target="predicted")
print(result)
print("choices:", result.choices)
