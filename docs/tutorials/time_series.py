# %% [markdown]
# # Time series
#
# The bundled `river-lstm` forecasts a river's flow from 142 days of rain, temperature and sunshine. Relevance
# says how much every number contributed, **in the unit of the forecast**.

# %%
import whence

model = whence.load("river-lstm")
days = model.example_table()
explanation = whence.explain_series(model, days.values, output="1 day")
print(explanation)
print(explanation.outputs)

# %% [markdown]
# Temperature contributes about as much as rain: warm days melt the snow of the winter. What every number is
# compared with is the *reference* (a dry day of 2 °C).

# %%
import matplotlib.pyplot as plt

names, relevance = explanation.features, explanation.relevance
colours = ("#2166ac", "#b2182b", "#e08214")
figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
days_before = range(-len(relevance) + 1, 1)
for name, colour, values in zip(names, colours, zip(*relevance, strict=True), strict=True):
    axes.plot(days_before, values, label=name, color=colour)
axes.axhline(0, color="0.6", linewidth=0.8)
axes.set_xlabel("days before the last one")
axes.set_ylabel(f"relevance, {explanation.unit}")
legend = axes.legend(frameon=False)
# %% [markdown]
# ## What if it had not rained?
#
# `blank` replaces a stretch of steps by the reference before the model sees them, for some features or all.

# %%
blank = [(130, 142, ["rain"])]
dry = whence.explain_series(model, days.values, output="1 day", blank=blank)
rain = sum(row[0] for row in explanation.relevance[130:142])
print(f"relevance of the rain of the last 12 days: {rain:.1f} {explanation.unit}")
less = explanation.score - dry.score
print(f"without it, the forecast is lower by {less:.1f} {explanation.unit}")

# %% [markdown]
# The two numbers differ, and should: relevance shares out the forecast that was made; a blank asks for
# another forecast.
#
# ## All horizons
#
# What speaks for the flow in a week is older than what speaks for tomorrow's.

# %%
for output in ("1 day", "3 days", "7 days"):
    each = whence.explain_series(model, days.values, output=output)
    last = sum(sum(row) for row in each.relevance[-3:])
    print(f"{output:7} forecast {each.score:5.1f}, last three days {last:5.1f}")

# %% [markdown]
# ## A forecaster of your own
#
# Any module that reads `(batch, steps, features)` will do. For every output step in one call, use
# `whence.relevance` with `target=("all", …)`: which input step mattered for which output step.

# %%
import torch
from torch import nn

torch.manual_seed(0)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(2, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.gru(x)[0])  # a forecast at every step


x = torch.randn(1, 12, 2)
result = whence.relevance(Forecaster(), x, target=("all", 0), by_step=True)
print(result.relevance.shape)  # output steps, samples, input steps
later = result.relevance[:, 0].triu(1)
print("relevance of later steps for earlier outputs:", later.abs().max().item())
