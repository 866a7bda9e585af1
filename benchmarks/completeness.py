"""For how many sentences Integrated Gradients accounts for the score within 1 %, with a fixed number of points.

python benchmarks/completeness.py --sst DIR [--model sst-bilstm] [--points 64] [--versus-rest]
"""

import argparse

import numpy as np

import whence
from whence.data.sst import find_sst, read_split
from whence.threads import one_thread


def main() -> None:
    """Explain SST's test sentences and print the share of those within the tolerance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sst")
    parser.add_argument("--model", default="sst-bilstm")
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--versus-rest", action="store_true")
    given = parser.parse_args()
    texts = [tree.tokens for tree in read_split(find_sst(given.sst), "test")]
    target = whence.contrast("predicted", "rest") if given.versus_rest else "predicted"
    method = whence.IntegratedGradients(steps=given.points, most=given.points)
    with one_thread():
        found = whence.explain(given.model, texts, target=target, method=method)
    gaps = np.abs([each.absorbed["completeness gap"] for each in found])
    change = np.abs([each.score - each.absorbed["baseline score"] for each in found])
    share = gaps / change
    print(
        f"{given.points} points: {(share <= 0.01).sum()} of {len(share)} sentences within 1 % ({(share <= 0.01).mean():.1%}); ",
        end="",
    )
    print(f"median {np.median(share):.1e}, largest {share.max():.1e} of the change from the baseline")


if __name__ == "__main__":
    main()
