"""Tilts fitted by cross-entropy: the mixture nearest to how runs look that hit the event.

Of all mixtures Q_θ the one of least relative entropy to P given the event maximises E_P[1{R(T) > x} log dQ_θ/dP].
From H runs that hit, drawn from an earlier mixture, with weights w_h, pulls n and sums of statistics S of each arm:

    maximise over η, α:   Σ_h w_h log Σ_k α_k exp( Σ_arms η_k · S_h − A(η_k) n_h )

(Rubinstein & Kroese 2004). For one component and one arm it is concave in η, solved by matching expected statistics; in
general Adam climbs from the default tilts, of all arms that have any. Fitting never changes what an estimate expects,
only its error: it is made on runs of its own, and the plain component keeps its share.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from eljax.arms import Bandit
from eljax.tails import importance, paths, tilts
from eljax.types import Policy

ROUNDS, SHARE, LEAST_RUNS = 3, 0.1, 2_000  # pilots, the runs of each as a share of all, at least so many
STEPS, RATE = 600, 0.05  # of Adam; η is in units of one over a standard deviation
FIRST_RUN = 2**31  # pilots never share a run with the estimate


def fit(
    bandit: Bandit, policy: Policy, components: Sequence[importance.Component], *, runs: int, **event
) -> tuple[list[importance.Component], str]:
    """(the fitted mixture, what was done), from checked arguments and a mixture to start from."""
    watched = paths.watch(bandit, [i for i, arm in enumerate(bandit.arms) if tilts.can_move(arm)])
    pilot, start, said = max(int(SHARE * runs), LEAST_RUNS), FIRST_RUN, "tilts as given: no pilot run hit the event"
    for k in range(ROUNDS):
        samples = importance.draw(bandit, policy, components, watched, runs=pilot, first_run=start, **event)
        start += sum(sample.runs for sample in samples)
        logs = np.concatenate(importance.log_weights(components, watched, samples))
        if logs.size == 0:
            break
        weights = np.exp(logs - logs.max())
        pulls, sums = (np.concatenate([getattr(s, name) for s in samples]) for name in ("pulls", "sums"))
        components = _fitted(bandit, components, watched, weights / weights.sum(), pulls, sums)
        effective = weights.sum() ** 2 / (weights**2).sum()
        said = f"tilts fitted by cross-entropy in {k + 1} rounds, the last from {effective:.0f} effective hits"
    return list(components), said


def _fitted(
    bandit: Bandit,
    components: Sequence[importance.Component],
    watched: paths.Watched,
    weights: np.ndarray,
    pulls: np.ndarray,
    sums: np.ndarray,
) -> list[importance.Component]:
    """The mixture after one maximisation over the hits [H]."""
    plain, *others = components
    # (component, place among the watched arms, arm): those not tilted yet may be, the target arm towards luck
    moving = [(k, w, i) for k in range(len(others)) for w, i in enumerate(watched.arms)]
    families = [tilts.family(bandit.arms[i]) for _, _, i in moving]
    etas = [others[k].tilts[i].ratio[[1 + s for s in f.used]] for (k, _, i), f in zip(moving, families, strict=True)]
    log_shares = np.log([component.share for component in others])

    def loss(parameters: tuple) -> jax.Array:
        logits, etas = parameters
        logs = [jnp.zeros(len(weights))] + [jnp.zeros(len(weights)) for _ in others]
        for (k, w, i), family, eta in zip(moving, families, etas, strict=True):
            climb = sums[:, w, list(family.used)] @ eta - pulls[:, w] * family.log_mgf(bandit.arms[i], eta)
            logs[1 + k] += climb
        shares = jnp.concatenate(
            [jnp.zeros(1) + jnp.log(plain.share), jnp.log1p(-plain.share) + jax.nn.log_softmax(logits)]
        )
        return -weights @ jax.scipy.special.logsumexp(jnp.stack(logs, 1) + shares[None], axis=1)

    with jax.enable_x64(True):
        logits, etas = jax.tree.map(
            np.asarray, _minimised(loss, (jnp.asarray(log_shares), [jnp.asarray(e) for e in etas]))
        )
    shares = (1 - plain.share) * np.exp(logits) / np.exp(logits).sum()
    out = [plain]
    for k, component in enumerate(others):
        chosen = list(component.tilts)
        for (owner, _, i), eta in zip(moving, etas, strict=True):
            if owner == k:
                chosen[i] = tilts.natural(bandit.arms[i], eta)
        out.append(importance.Component(component.label, float(shares[k]), tuple(chosen)))
    return out


def _minimised(loss, start: tuple) -> tuple:
    """The best of the points that Adam meets; where the loss is not finite (outside the domain of A) it turns back."""
    optimiser = optax.apply_if_finite(optax.adam(optax.cosine_decay_schedule(RATE, STEPS)), STEPS)

    def step(state: tuple, _) -> tuple[tuple, None]:
        point, memory, best, least = state
        value, slope = jax.value_and_grad(loss)(point)
        better = value < least
        best = jax.tree.map(partial(jnp.where, better), point, best)
        updates, memory = optimiser.update(slope, memory, point)
        outside = ~jnp.isfinite(value)
        point = jax.tree.map(lambda x, dx, back: jnp.where(outside, back, x + dx), point, updates, best)
        return (point, memory, best, jnp.where(better, value, least)), None

    first = (start, optimiser.init(start), start, jnp.asarray(jnp.inf))
    (_, _, best, _), _ = jax.jit(lambda state: jax.lax.scan(step, state, None, length=STEPS))(first)
    return best
