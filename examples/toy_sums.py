"""Ground truth: trains LSTMs with one cell to add and to subtract, and prints how well each method finds the numbers.

`python examples/toy_sums.py [models]` trains 20 models by default; the table in docs/models.md is its output.
"""

import sys

import torch

from whence import LRP, GradientXInput, SensitivityAnalysis
from whence.data.toy import Task
from whence.experiments.toy import faithfulness, trained

METHODS = {
    "LRP, product all": LRP(),
    "LRP, product all, ε = 1e-6": LRP(epsilon=1e-6),
    "LRP, product all, δ = 1": LRP(delta=1.0),
    "LRP, product half": LRP(product="half"),
    "LRP, product prop": LRP(product="prop"),
    "LRP, product abs": LRP(product="abs"),
    "Gradient×Input": GradientXInput(),
    "sensitivity analysis": SensitivityAnalysis(),
}


def main() -> None:
    """Train and print a Markdown table."""
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    tasks: tuple[Task, ...] = ("add", "subtract")
    print("| method | task | ρ(R_a, n_a) | ρ(R_b, n_b) | mean (R_a + R_b) / y | its spread |\n|---|---|---|---|---|---|")
    for task in tasks:
        models = trained(task, count)
        for name, method in METHODS.items():
            found = faithfulness(models, task, method)
            print(f"| {name} | {task} | {found.first:.3f} | {found.second:.3f} | {found.ratio:.3f} | {found.spread:.3f} |")


if __name__ == "__main__":
    main()
