"""What the paper claims, and what a small simulation of each claim gives: a table claim, evidence, verdict.

    python -m experiments.claims              # all of them
    python -m experiments.claims --only 5 11  # some

Every check can fail, and says what it compared: "shown" and "not shown" speak of that evidence, not of a proof. Tails
are those that plain simulation reaches, down to 1e-4 or so, but for 12a. Unless said otherwise the arms are N(1, 1) and
N(0, 1) (Δ = σ) and the schedule is g2(t) = (log t)²/K. --horizon and --runs are those of the plain checks; tails take
up to 256 times as many runs of 300 rounds. Section 7 is judged on the results that experiments.table3 and table4_5 left
in the folders next to --out, whatever their size, and on smaller ones of its own where there are none.
"""

import argparse
import functools
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd
from jax.tree_util import Partial

import eljax
from eljax import policies
from eljax.results import Result
from eljax.types import Policy
from experiments import (
    almost_sure,
    common,
    coupling,
    expected_regret,
    fan_glynn,
    index_bounds,
    scale,
    section7,
    table1,
    trap,
    worst_case,
)

SIZE = {"horizon": 1_000, "runs": 1_024}
G1, G2 = common.SCHEDULES["g1"], common.SCHEDULES["g2"]
PAIR = expected_regret.BANDIT
TAIL_ROUNDS = np.unique(np.geomspace(20, 300, 24).round().astype(int))


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
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row.values()) + " |" for row in rows]
        header = ["| | claim | evidence | verdict |", "|---|---|---|---|"]
        (args.out / "table.md").write_text("\n".join([*header, *lines]) + "\n", encoding="utf-8")
        rest = [f"{row['']} {row['verdict'].partition(':')[0]}" for row in rows if row["verdict"] != "shown"]
        print(f"{len(rows) - len(rest)} of {len(rows)} shown" + (f"; {', '.join(rest)}" if rest else ""))


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


def _bound_check(args: argparse.Namespace, names: Sequence[str]) -> common.Finding:
    rows = [_bounds(max(args.runs // 16, 2), args.seed)[name] for name in names]
    told = [
        f"{row['bound']}: {row['violations']} of {row['comparisons']:,} violated, tightest margin "
        f"{row['tightest']:.2g} ({row['law']}, n = {row['n']:,})"
        for row in rows
    ]
    return "; ".join(told), all(row["violations"] == 0 for row in rows)


def index_above_mean(args: argparse.Namespace) -> common.Finding:
    radius = np.array([0.0, 0.5, 3.0, 40.0])[:, None]
    x = np.random.default_rng(args.seed).standard_t(2, size=(4 * args.runs, 20))
    index = np.asarray(eljax.el_index(x.astype(float), radius))
    below = int((index < x.mean(1) - 4 * np.finfo(index.dtype).eps * np.abs(x).max(1)).sum())
    same = bool((np.asarray(eljax.el_index(np.full((1, 20), 0.3), radius)) == index.dtype.type(0.3)).all())
    plain, zero = (simulate(args, PAIR, policy) for policy in (policies.g_forcing(G2), policies.el_f(G2, 0.0)))
    equal = int((plain.regret == zero.regret).all(1).sum())
    evidence = f"index below the mean in {below} of {index.size:,} samples of t₂; equal rewards: their value {same}; "
    held = below == 0 and same and equal == plain.runs
    return evidence + f"radius 0 pulls as g-forcing in {equal} of {plain.runs} runs", held


def trapped(args: argparse.Namespace) -> common.Finding:
    results = {
        f"{name} {schedule}": simulate(args, trap.bandit(0.2), make(g))
        for name, make in trap.POLICIES.items()
        for schedule, g in common.SCHEDULES.items()
    }
    rows = {name: trap.row(name, "0.2", result) for name, result in results.items()}
    told = [f"{name} {row['trapped']:.3f}" for name, row in rows.items()]
    held, ends = True, results["naive EL-UCB g2"].tail(args.horizon - 1.5, confidence=0.999)[1:]
    for name, row in rows.items():
        if name.startswith("naive"):
            _, low, high = results[name].tail(args.horizon - 1.5, confidence=0.999)
            held &= low <= 0.8 <= high and row["mean"] > low * (args.horizon - 1)
        else:
            held &= row["trapped"] == 0 and row["R(T)/T"] < row["R(T/10)/(T/10)"]
    interval = f"[{ends[0]:.3f}, {ends[1]:.3f}]"
    return f"share of runs with N₂ = T − 1 at ε = .2: {', '.join(told)}; 1 − ε = .8, 99.9% interval {interval}", held


def coupled(args: argparse.Namespace) -> common.Finding:
    rows: list[dict] = []
    choices = {"laws": ["gaussian", "two-point, p = .1"], "radii": ["0.5", "3"], "schedules": ["g2"]}
    coupling.measure(several(args, horizon=min(args.horizon, 500), **choices), rows, {})
    violations, total = (sum(row[name] for row in rows) for name in ("violations", "run-rounds"))
    gained = max(row["mean"] for row in rows)
    return (
        f"{violations} violations in {total:,} rounds; up to {gained:.1f} pulls gained",
        violations == 0 and gained > 0,
    )


def settles(args: argparse.Namespace) -> common.Finding:
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


def bounded_excess(args: argparse.Namespace) -> common.Finding:
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


def tail_shape(args: argparse.Namespace) -> common.Finding:
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


def any_policy(args: argparse.Namespace) -> common.Finding:
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


def exponent(args: argparse.Namespace) -> common.Finding:
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


def radius_in_tail(args: argparse.Namespace) -> common.Finding:
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


def scale_free(args: argparse.Namespace) -> common.Finding:
    x = [PAIR.rewards(seed=args.seed, run=0, arm=arm, pulls=2_000, dtype="float64") for arm in (0, 1)]
    changes = {"X": (1.0, 0.0), "1e-6 X": (1e-6, 0.0), "1e6 X": (1e6, 0.0), "X + 1e6 σ": (1.0, 1e6)}
    pulls = {}
    for name, (factor, shift) in changes.items():
        bandit = eljax.Bandit([eljax.empirical(factor * rewards + shift) for rewards in x])
        result = simulate(args, bandit, policies.el_f(G2, 3.0), dtype="float64")
        pulls[name] = np.rint(result.regret / result.gaps.max())
    same = {name: int((counts == pulls["X"]).all(1).sum()) for name, counts in pulls.items() if name != "X"}
    told = ", ".join(f"{name}: {count}" for name, count in same.items())
    return f"runs of {args.runs} with the same pulls at every checkpoint (float64): {told}", (
        all(count == args.runs for count in same.values())
    )


def consistent(args: argparse.Namespace) -> common.Finding:
    laws = ["gaussian", "exponential", "student t, 3", "pareto, 1.5"]
    n, curves = index_bounds.paths(several(args, horizon=100 * args.horizon, laws=laws))
    told, held = [], True
    for law, curve in curves.items():
        first, last = (np.abs(curve[part]).max(0) for part in (n <= n[-1] / 100, n >= n[-1] / 10))
        told.append(f"{law} {first[0]:.2g} → {last[0]:.2g}, {first[2]:.2g} → {last[2]:.2g}")
        held &= bool((last[[0, 2]] < first[[0, 2]]).all())
    sizes = f"largest with n ≤ {n[-1] // 100:,} and ≥ {n[-1] // 10:,}"
    return f"|U − mean| (radius 3) and max/n, {sizes}: {'; '.join(told)}", held


def power_tail(args: argparse.Namespace) -> common.Finding:
    """KL-UCB for the Gaussian family by importance sampling against first passages, and their exponent far out."""
    told, held = [], True
    for name, inflation in fan_glynn.INFLATIONS.items():
        policy, values = policies.kl_ucb("gaussian", inflation), []
        for x in (100.5, 1_000.5):
            size = {"horizon": int(fan_glynn.ROUNDS * x), "threshold": x, "runs": 16 * args.runs, "seed": args.seed}
            found, theory = (
                eljax.tails.estimate(PAIR, policy, method="importance", **size),
                fan_glynn.passage(x, 1.0, inflation),
            )
            values.append(f"{-found.log_prob:.2f} ({theory:.2f})")
            held &= found.trusted and abs(found.log_prob + theory) < 0.2 + 3 * found.relative_error
        far = fan_glynn.far_out(1.0, inflation).exponent
        held &= abs(far - 1 - inflation) < 0.03
        told.append(f"b = {name}: {', '.join(values)}, theirs to x = 1e60 is {far:.2f}")
    return f"−log P[R(4x) > x] at x = 100, 1,000 (first passages), and the exponent: {'; '.join(told)}", held


def units(args: argparse.Namespace) -> common.Finding:
    told, same = [], {}
    for name in ("R-UCB g2", "tail-safe UCB", "EL-F g2"):
        make = {"R-UCB g2": lambda: policies.r_ucb(G2), "tail-safe UCB": policies.tail_safe_ucb}
        policy = make.get(name, lambda: policies.el_f(G2, 3.0))()
        results = []
        for factor in (1.0, 50.0):
            bandit = eljax.Bandit([eljax.gaussian(0.5 * factor, factor), eljax.gaussian(0.0, factor)])
            results.append(simulate(args, bandit, policy))
        same[name] = scale.same_pulls(*results)
        medians = [result.median()[-1] / factor for result, factor in zip(results, (1, 50), strict=True)]
        told.append(f"{name} {same[name]:.3f} (medians {medians[0]:.3g}, {medians[1]:.3g})")
    evidence = f"N(.5, 1), N(0, 1) and 50 times that, runs with the same pulls: {'; '.join(told)}"
    return evidence, same["R-UCB g2"] < 0.5 and same["tail-safe UCB"] < 0.5 and same["EL-F g2"] > 0.99


def same_start(args: argparse.Namespace) -> common.Finding:
    """Runs of T rounds begin like runs of T/10 rounds for the policies that never use T, for them only."""
    made = {
        "EL-F": policies.el_f(G2, 3.0),
        "R-UCB": policies.r_ucb(G2),
        "FE linear": policies.fe("linear"),
        "RDS": policies.rds("sqrt_log"),
        "FE sqrt": policies.fe("sqrt"),
        "FE exponential": policies.fe("exponential"),
    }
    short, shares = max(args.horizon // 10, 2), {}
    for name, policy in made.items():
        first = simulate(args, PAIR, policy, horizon=short)
        late = simulate(args, PAIR, policy, checkpoints=[short, args.horizon])
        shares[name] = float((first.regret[:, -1] == late.regret[:, 0]).mean())
    told = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
    held = all((share == 1) == (name not in ("FE sqrt", "FE exponential")) for name, share in shares.items())
    return f"runs of {short} rounds that are the start of one of {args.horizon:,}: {told}", held


def slow_fe(args: argparse.Namespace) -> common.Finding:
    result = simulate(args, PAIR, policies.fe("linear"), horizon=10 * args.horizon)
    value = worst_case.exponent(result.checkpoints, result.mean())
    return f"FE f(c) = c: mean regret ~ T^{value:.2f} to T = {result.horizon:,}", abs(value - 0.5) < 0.1


def logarithmic_rds(args: argparse.Namespace) -> common.Finding:
    result = simulate(args, PAIR, policies.rds("sqrt_log"))
    late = result.checkpoints >= result.horizon / 30
    growth, error = table1.best_growth(result.checkpoints[late], result.mean()[late])
    return f"of log T, g1, g2, √T and T, a + b {growth} fits its mean regret best (to {error:.1%})", growth == "log T"


def unrepaired(args: argparse.Namespace) -> common.Finding:
    """However fast the radius grows: its schedule is t itself."""
    result = simulate(args, trap.bandit(0.2), policies.el_ucb(Partial(_all_rounds)))
    first = [trap.bandit(0.2).rewards(seed=args.seed, run=run, arm=0, pulls=1)[0] for run in range(64)]
    caught = result.pulls[:, 1] == args.horizon - 1
    same = int((caught[:64] == (np.array(first[: args.runs]) == 0)[: len(caught)]).sum())
    shown = f"schedule t: {caught.mean():.3f} of the runs are trapped at ε = .2, those whose first reward is 0"
    return f"{shown} (as foretold in {same} of 64)", same == min(64, args.runs)


def _all_rounds(t, num_arms):
    return t


def no_free_lunch(args: argparse.Namespace) -> common.Finding:
    """The largest regret over the gap against the horizon, where a rare reward decides which arm is best."""
    horizon, values = 10 * args.horizon, {}
    bandit, factor, sigma, _ = worst_case.FAMILIES["rare"]
    gaps = [2.0 ** (-k / 2) for k in range(4, 17)]
    for name in ("EL-F g2, radius 3", "UCB, told the scale"):
        policy = worst_case.POLICIES[name](sigma)
        size = {"horizon": horizon, "runs": args.runs // 2 + 1}
        found = {gap: simulate(args, bandit(gap, factor), policy, **size) for gap in gaps}
        t, largest, _, _ = worst_case.envelope(found)
        values[name] = worst_case.exponent(t, largest)
    late = t[t >= horizon / 30].astype(float)
    bound = worst_case.exponent(late, late / (np.log(late) ** 2 / 2))
    told = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
    evidence = (
        f"exponent in T of the largest mean regret over gaps of rare rewards, to T = {horizon:,}: {told}; T/g2(T):"
    )
    ours, theirs = values.values()
    return f"{evidence} {bound:.2f}", ours > bound - 0.05 and ours > theirs + 0.1


def _counted(args: argparse.Namespace, name: str) -> common.Finding:
    table = section7.load_or_simulate(args.out, 10 * args.horizon, args.runs // 4, args.seed)
    evidence, held = section7.JUDGES[name][1](table)
    return f"{evidence} ({table.size()})", held


CHECKS: dict[str, tuple[str, Callable[[argparse.Namespace], common.Finding]]] = {
    "1": ("The index is at least the mean; radius 0 is g-forcing; equal rewards give their value", index_above_mean),
    "2": ("Lemma 2.2: lower bound on logEL", partial(_bound_check, names=["2.2"])),
    "3": ("Lemma 5.2: upper bounds on the index", partial(_bound_check, names=["5.2", "5.2, second form"])),
    "4": (
        "logEL ≥ KL_inf on bounded rewards: index ≤ empirical KL-UCB's",
        partial(_bound_check, names=["KL_inf", "KL-UCB"]),
    ),
    "5": ("Section 3: naive EL-UCB is trapped with probability 1 − ε, EL-F is not", trapped),
    "6": ("Lemma 4.2: with a deterministic worse arm a radius never costs a pull of the better one", coupled),
    "7": ("Theorem 5.1(1): R(T)/g(T) → Δ almost surely", settles),
    "8": ("Theorem 5.1(2): E R(T) ≤ Δ g(T) + a constant free of T", bounded_excess),
    "9": ("Theorem 6.1: the tail falls faster than every power, slower than exponentially", tail_shape),
    "10": ("Proposition 6.2: a lower bound on the tail of any policy", any_policy),
    "11a": ("Corollary 6.3: log P[R(T) > cT] ~ −Δ²/(2σ²) g(T)", exponent),
    "11b": ("Beyond the paper: the tail with a radius at finite T", radius_in_tail),
    "12a": ("Table 1: log-regret policies have power tails, 1/x for KL-UCB, x^−(1+b) when inflated", power_tail),
    "12b": ("Table 1: R-UCB and tail-safe UCB depend on the unit of the rewards, EL-F does not", units),
    "12c": ("Table 1: RDS has logarithmic regret", logarithmic_rds),
    **{name: (claim, partial(_counted, name=name)) for name, (claim, _) in section7.JUDGES.items()},
    "14": ("EL-F pulls the same arms for aX + b", scale_free),
    "15a": ("Lemma B.3: U → mean, max/n → 0", consistent),
    "15b": ("Lemma B.4: log(1 + y) ≥ y − y²/(2(1 − c))", partial(_bound_check, names=["B.4"])),
    "16a": ("Remark 3.1: no schedule repairs naive EL-UCB", unrepaired),
    "16b": ("Hadiji and Stoltz: the largest regret over the gap grows like T/g(T) or faster", no_free_lunch),
    "17a": ("EL-F, R-UCB, RDS and FE f(c) = c never use T; the other FE do", same_start),
    "17b": ("FE f(c) = c has √T regret", slow_fe),
}


if __name__ == "__main__":
    sys.exit(main())
