"""What the paper claims, and what a small simulation of each claim gives: a table claim, evidence, verdict.

    python -m experiments.claims              # all of them
    python -m experiments.claims --only 5 11  # some

Every check can fail, and says what it compared: "shown" and "not shown" speak of that evidence, not of a proof. Tails
are those plain simulation reaches, down to 1e-4 or so. Unless said otherwise the arms are N(1, 1) and N(0, 1) (Δ = σ)
and the schedule is g2(t) = (log t)²/K. --horizon and --runs are those of the plain checks; tails take 256 times as many
runs of 300 rounds.
"""

import argparse
import functools
import math
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

import eljax
from eljax import policies
from eljax.results import Result, readable
from eljax.types import Policy
from experiments import almost_sure, common, coupling, expected_regret, index_bounds, trap

SIZE = {"horizon": 1_000, "runs": 1_024}
G1, G2 = common.SCHEDULES["g1"], common.SCHEDULES["g2"]
PAIR = expected_regret.BANDIT
TAIL_ROUNDS = np.unique(np.geomspace(20, 300, 24).round().astype(int))
Finding = tuple[str, bool | str]  # evidence, and whether it shows the claim, or why it was not checked


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return common.main(work, __doc__, "claims", SIZE, argv, only=list(CHECKS))


def work(args: argparse.Namespace) -> None:
    """Check the claims one by one, then print and write the table; on Ctrl-C, of what there is."""
    rows = []
    try:
        for name in args.only:
            claim, check = CHECKS[name]
            evidence, held = check(args)
            verdict = f"not checked: {held}" if isinstance(held, str) else "shown" if held else "not shown"
            rows.append({"": name, "claim": claim, "evidence": evidence, "verdict": verdict})
            print(f"{name:>3}  {claim}\n     {evidence}\n     -> {verdict}\n", flush=True)
    finally:
        pd.DataFrame(rows).to_csv(args.out / "table.csv", index=False)
        lines = ["| " + " | ".join(map(str, row.values())) + " |" for row in rows]
        header = ["| | claim | evidence | verdict |", "|---|---|---|---|"]
        (args.out / "table.md").write_text("\n".join([*header, *lines]) + "\n", encoding="utf-8")
        shown = sum(row["verdict"] == "shown" for row in rows)
        print(f"{shown} of {len(rows)} shown.")


def simulate(args: argparse.Namespace, bandit: eljax.Bandit, policy: Policy, **changes) -> Result:
    """A simulation of the size the command line gives, or as changed."""
    return eljax.simulate(bandit, policy, **(common.size(args) | changes))


def several(args: argparse.Namespace, **choices) -> argparse.Namespace:
    """The arguments as another experiment wants them."""
    return argparse.Namespace(**(vars(args) | choices))


@functools.lru_cache(maxsize=1)
def _bounds(runs: int, seed: int) -> dict[str, dict]:
    args = argparse.Namespace(runs=runs, seed=seed, laws=list(index_bounds.LAWS))
    return {row["bound"]: row for row in index_bounds.summary(index_bounds.margins(args))}


def _bound_check(args: argparse.Namespace, *names: str) -> Finding:
    rows = [_bounds(max(args.runs // 16, 2), args.seed)[name] for name in names]
    told = [
        f"{row['bound']}: {row['violations']} of {row['comparisons']:,} violated, tightest margin "
        f"{row['tightest']:.2g} ({row['law']}, n = {row['n']:,})"
        for row in rows
    ]
    return "; ".join(told), all(row["violations"] == 0 for row in rows)


def index_above_mean(args: argparse.Namespace) -> Finding:
    radius = np.array([0.0, 0.5, 3.0, 40.0])[:, None]
    x = np.random.default_rng(args.seed).standard_t(2, size=(4 * args.runs, 20))
    index = np.asarray(eljax.el_index(x.astype(float), radius))
    below = int((index < x.mean(1) - 4 * np.finfo(index.dtype).eps * np.abs(x).max(1)).sum())
    same = bool((np.asarray(eljax.el_index(np.full((1, 20), 0.3), radius)) == index.dtype.type(0.3)).all())
    plain, zero = (simulate(args, PAIR, policy) for policy in (policies.g_forcing(G2), policies.el_f(G2, 0.0)))
    equal = int((plain.regret == zero.regret).all(1).sum())
    evidence = f"index below the mean in {below} of {index.size:,} samples of t₂; equal rewards give their value: {same}; "
    return evidence + f"radius 0 pulls as g-forcing in {equal} of {plain.runs} runs", (
        below == 0 and same and equal == plain.runs
    )


def trapped(args: argparse.Namespace) -> Finding:
    both = {"epsilons": ["0.2"], "policies": list(trap.POLICIES), "schedules": ["g1", "g2"]}
    results = {}
    for policy in both["policies"]:
        for schedule in both["schedules"]:
            made = trap.POLICIES[policy](common.SCHEDULES[schedule])
            results[f"{policy} {schedule}"] = simulate(args, trap.bandit(0.2), made)
    rows = {name: trap.row(name, "0.2", result) for name, result in results.items()}
    told = [f"{name} {row['trapped']:.3f} [{row['low']:.3f}, {row['high']:.3f}]" for name, row in rows.items()]
    naive = [row for name, row in rows.items() if name.startswith("naive")]
    repaired = [row for name, row in rows.items() if not name.startswith("naive")]
    held = all(row["low"] <= 0.8 <= row["high"] and row["mean"] > 0.7 * args.horizon for row in naive)
    held &= all(row["trapped"] == 0 and row["R(T)/T"] < row["R(T/10)/(T/10)"] for row in repaired)
    return f"share of runs with N₂ = T − 1 at ε = .2, 95% interval: {', '.join(told)}; 1 − ε = .8", held


def coupled(args: argparse.Namespace) -> Finding:
    rows: list[dict] = []
    choices = {"laws": ["gaussian", "two-point, p = .1"], "radii": ["0.5", "3"], "schedules": ["g2"]}
    coupling.measure(several(args, horizon=min(args.horizon, 500), **choices), rows, {})
    violations, total = (sum(row[name] for row in rows) for name in ("violations", "run-rounds"))
    gained = max(row["mean"] for row in rows)
    return f"{violations} violations in {total:,} rounds; up to {gained:.1f} pulls gained", violations == 0 and gained > 0


def settles(args: argparse.Namespace) -> Finding:
    policy, told, held = policies.el_f(G2, 3.0), [], True
    for law in ("gaussian", "student t, 3"):
        with common.narrow_tiles(8):
            bandit = eljax.Bandit(almost_sure.heavy_tails.LAWS[law])
            result = simulate(args, bandit, policy, horizon=100 * args.horizon, runs=8)
        row = almost_sure.row(law, result)
        spans = [f"{row[f'least at {at}']:.2f}–{row[f'most at {at}']:.2f}" for at in ("T/100", "T/10", "T")]
        told.append(f"{law}: {', '.join(spans)}")
        held &= row["most at T"] < row["most at T/100"] and abs(row["median at T"] - 1) < 0.1
    return f"R/(gΔ), 8 paths, at T/100, T/10 and T = {100 * args.horizon:,}: {'; '.join(told)}", held


def bounded_excess(args: argparse.Namespace) -> Finding:
    told, held = [], True
    for radius, make in expected_regret.RADII.items():
        last = expected_regret.decades(radius, simulate(args, PAIR, make(G2), runs=8 * args.runs))[-1]
        told.append(
            f"radius {radius}: {last['excess']:.2f} ± {last['excess_se']:.2f}, "
            f"of it {last['added in the decade']:+.2f} ± {last['added_se']:.2f} in the last decade"
        )
        held &= last["added in the decade"] < 3 * last["added_se"] and last["excess"] < 2 + 3 * last["excess_se"]
    return f"mean regret − Δ⌈g(T)⌉ at T = {args.horizon:,} (s.e.): {'; '.join(told)}", held


def _tail(args: argparse.Namespace, policy: Policy, runs: int) -> np.ndarray:
    """[R, C]: regret after TAIL_ROUNDS."""
    return simulate(args, PAIR, policy, horizon=300, runs=runs, checkpoints=TAIL_ROUNDS).regret


def tail_shape(args: argparse.Namespace) -> Finding:
    """Local exponents of the tail of R(300) between doubled thresholds, above Δ⌈g(T)⌉ = 17."""
    final = _tail(args, policies.g_forcing(G2), 256 * args.runs)[:, -1]
    x = np.array([20.5, 40.5, 80.5, 160.5])
    hits = (final[:, None] > x).sum(0)
    if hits[-1] == 0:
        return f"no run of {final.size:,} with regret above 160", False
    power = -np.diff(np.log(hits)) / np.diff(np.log(x))
    error = np.sqrt(1 / hits[1:] - 1 / hits[:-1]) / np.diff(np.log(x))
    rate = -np.diff(np.log(hits)) / np.diff(x)
    told = ", ".join(f"{p:.2f} ± {e:.2f}" for p, e in zip(power, error, strict=True))
    held = power[-1] - power[0] > 2 * math.hypot(error[0], error[-1]) and rate[-1] < rate[0]
    return f"radius 0: P[R(300) > x] ~ x^−p, p from x to 2x, x = 20, 40, 80: {told}; rate per unit of x falls", held


def any_policy(args: argparse.Namespace) -> Finding:
    """Proposition 6.2 at T = 300, c = Δ/2: E is N₂ > T/2; under Q arm 1 is N(−Δ_Q, 1)."""
    candidates = {"g-forcing": policies.g_forcing(G2), "EL-F": policies.el_f(G2, 3.0), "UCB": policies.ucb(1.0)}
    told, held = [], True
    for name, policy in candidates.items():
        final = _tail(args, policy, 16 * args.runs)[:, -1]
        upper = float(eljax.Result.tail(_as_result(final), 150.5).upper)
        bounds = []
        for gap in (0.25, 0.5, 1.0):
            other = eljax.Bandit([eljax.gaussian(-gap, 1.0), eljax.gaussian(0.0, 1.0)])
            pulls = simulate(args, other, policy, horizon=300, runs=args.runs, checkpoints=TAIL_ROUNDS).pulls
            mass = (pulls[:, 1] > 150.5).mean()
            bounds.append(-(pulls[:, 0].mean() * (1 + gap) ** 2 / 2 + math.log(2)) / mass)
        told.append(f"{name} {max(bounds):.1f} (simulated: at most {math.log(upper):.1f})")
        held &= max(bounds) <= math.log(upper)
    return f"bound on log P[R(300) > 150], Δ_Q = .25, .5, 1: {', '.join(told)}", held


def _as_result(final: np.ndarray) -> Result:
    pulls = np.stack([300 - final, final], -1).astype(int)
    return Result.from_pulls(pulls[:, None], [300], pulls, PAIR.gaps)


def exponent(args: argparse.Namespace) -> Finding:
    """−log P[R(t) > t/2] − ½ log n against n = g(t/2), weighted by its precision; errors by leaving out twentieths."""
    regret = _tail(args, policies.g_forcing(G2), 256 * args.runs)
    n = np.log(TAIL_ROUNDS / 2) ** 2 / 2
    groups = np.array_split(regret > TAIL_ROUNDS / 2 + 0.25, 20)
    hits, parts = sum(group.sum(0) for group in groups), [group.sum(0) for group in groups]
    kept = hits >= 20

    def slope(count: np.ndarray, runs: int) -> float:
        y = -np.log(count[kept] / runs) - np.log(n[kept]) / 2
        return float(np.polyfit(n[kept], y, 1, w=np.sqrt(count[kept]))[0])

    if kept.sum() < 3:
        return f"too few of {len(regret):,} runs in the tail", False
    leaving = [slope(hits - part, len(regret) - len(group)) for part, group in zip(parts, groups, strict=True)]
    error = math.sqrt(19 / 20 * np.sum((np.array(leaving) - np.mean(leaving)) ** 2))
    value = slope(hits, len(regret))
    last = f"{hits[kept][-1]} of {len(regret):,} runs at t = {TAIL_ROUNDS[kept][-1]}"
    return f"radius 0: slope {value:.3f} ± {error:.3f}, Δ²/2σ² = .5 (to n = {n[kept][-1]:.1f}: {last})", (
        abs(value - 0.5) < 0.05 + 2 * error
    )


def radius_in_tail(args: argparse.Namespace) -> Finding:
    """The beyond-the-paper form: −log P − I − ½ log n stays within .6–2 nats at radius 3 (where there are 20 hits)."""
    regret = _tail(args, policies.el_f(G2, 3.0), 64 * args.runs)
    hits = (regret > TAIL_ROUNDS / 2 + 0.25).sum(0)
    kept = (hits >= 20) & (TAIL_ROUNDS >= 40)
    if not kept.any():
        return f"too few of {len(regret):,} runs in the tail", False
    t, n = TAIL_ROUNDS[kept], np.log(TAIL_ROUNDS[kept] / 2) ** 2 / 2
    D, b = 1 - np.sqrt(2 * 3 / (t / 2)), np.sqrt(2 * 3 / n)
    s = (-D * b + np.sqrt(D**2 * b**2 + 4 * (1 + b**2))) / (2 * (1 + b**2))
    rest = -np.log(hits[kept] / len(regret)) - n * ((D + s * b) ** 2 / 2 + (s**2 - 1) / 2 - np.log(s)) - np.log(n) / 2
    return f"radius 3, t = {t[0]}..{t[-1]}: what is left is {rest.min():.2f} to {rest.max():.2f} nats", (
        bool((np.abs(rest - 1) < 1.5).all())
    )


def scale_free(args: argparse.Namespace) -> Finding:
    x = [PAIR.rewards(seed=args.seed, run=0, arm=arm, pulls=2_000, dtype="float64") for arm in (0, 1)]
    changes = {"X": (1.0, 0.0), "1e-6 X": (1e-6, 0.0), "1e6 X": (1e6, 0.0), "X + 1e6 σ": (1.0, 1e6)}
    pulls = {}
    for name, (scale, shift) in changes.items():
        bandit = eljax.Bandit([eljax.empirical(scale * rewards + shift) for rewards in x])
        result = simulate(args, bandit, policies.el_f(G2, 3.0), dtype="float64")
        pulls[name] = np.rint(result.regret / result.gaps.max())
    same = {name: int((counts == pulls["X"]).all(1).sum()) for name, counts in pulls.items() if name != "X"}
    told = ", ".join(f"{name}: {count}" for name, count in same.items())
    return f"runs of {args.runs} with the same pulls at every checkpoint (float64): {told}", (
        all(count == args.runs for count in same.values())
    )


def consistent(args: argparse.Namespace) -> Finding:
    laws = ["gaussian", "exponential", "student t, 3", "pareto, 1.5"]
    n, curves = index_bounds.paths(several(args, horizon=100 * args.horizon, laws=laws))
    early, told, held = np.searchsorted(n, n[-1] / 100), [], True
    for law, curve in curves.items():
        told.append(f"{law} {curve[early, 0]:+.3f} → {curve[-1, 0]:+.4f}, {curve[early, 2]:.1e} → {curve[-1, 2]:.1e}")
        held &= abs(curve[-1, 0]) < abs(curve[early, 0]) and curve[-1, 2] < curve[early, 2]
    return f"U − mean (radius 3) and max/n from n = {n[early]:,} to {n[-1]:,}: {'; '.join(told)}", held


CHECKS: dict[str, tuple[str, Callable[[argparse.Namespace], Finding]]] = {
    "1": ("The index is at least the mean; radius 0 is g-forcing; equal rewards give their value", index_above_mean),
    "2": ("Lemma 2.2: lower bound on logEL", functools.partial(_bound_check, "2.2")),
}


if __name__ == "__main__":
    sys.exit(main())
