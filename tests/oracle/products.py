"""The rules for a product z = g · s of single numbers: the relevance of g and of s."""


def split(g: float, s: float, r: float, *, product: str, epsilon: float, delta: float, shared: bool) -> tuple[float, float]:
    """all: (0, R); half: (R/2, R/2); prop: g/(g+s), stabilised as a sum of two terms is; abs: |g|/(|g|+|s|)."""
    if product == "all":
        return 0.0, r
    if product == "half":
        return r / 2, r / 2
    if product == "abs":
        total = abs(g) + abs(s)
        part = abs(g) / total if total else 0.5
        return part * r, r - part * r
    z = g + s
    sign = 1.0 if z >= 0 else -1.0
    extra = epsilon * sign if shared else delta * epsilon * sign
    q = r / (z + epsilon * sign)
    return (g + extra / 2) * q, (s + extra / 2) * q
