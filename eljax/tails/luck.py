"""How much better than its mean a target arm may look: the way a threshold is crossed when T is small.

Arm j keeps being pulled if the better arms look worse than a level u, for which they have few pulls n each, and arm j
itself better than m_j, for which it has m = x/Δ_j of them. The likeliest way is the level of least cost

    m KL(Q_j, P_j) + Σ_i n KL(Q_i, P_i),    Q_j with mean u, Q_i looking like u (`tails.rate`)

For m ≫ n it is u = m_j, and luck is not needed; but 40 pulls of a fair coin may look like .8 sooner than a coin of
probability 1 − 1e-6 fails five times in ten.
"""

import numpy as np

from eljax.arms import Bandit
from eljax.tails import tilts

LEVELS = np.array([0, 0.02, 0.05, *np.linspace(0.1, 0.9, 9)])  # from the target's mean to the worst of the better ones
WORTH = 1.0  # nats that luck must save to be worth a component


def tilted(bandit: Bandit, j: int, own: int, better: np.ndarray, level: float, radius: float, pulls: float) -> list:
    """The tilts [K] of least cost, in a list; empty where luck does not save WORTH.

    `own` is m, `level` the index of arm j without luck.
    """
    room = min((bandit.means[i] for i in better), default=level) - level
    if not room > 0 or not tilts.can_move(bandit.arms[j]):
        return []
    rows, costs = [], []
    for share in LEVELS:
        if not bandit.means[j] + share * room < bandit.arms[j].support[1]:
            break
        row = [tilts.none(arm) for arm in bandit.arms]
        row[j] = tilts.to_mean(bandit.arms[j], bandit.means[j] + share * room) if share else row[j]
        for i in better:
            row[i] = tilts.to_index(bandit.arms[i], level=level + share * room, radius=radius, pulls=pulls)
        each = {i: pulls for i in better} | ({j: own} if share else {})
        rows.append(tuple(row))
        costs.append(sum(n * tilts.divergences(bandit.arms[i], row[i])[0] for i, n in each.items()))
    best = int(np.argmin(costs))
    return [rows[best]] if costs[0] - costs[best] > WORTH else []
