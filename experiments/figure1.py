"""Regret of EL-F and RDS against time: mean and median on the paper's six instances (figure 1).

    python -m experiments.figure1

EL-F with both schedules and radius 3, RDS with both bonuses. Give `--out results/table3` after `experiments.table3` and
its results are used, nothing is simulated again.
"""

import sys
from collections.abc import Sequence

from experiments import curves

SHOWN = ("EL-F g1, radius 3", "EL-F g2, radius 3", "RDS sqrt_log", "RDS log")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return curves.main(__doc__, "figure1", SHOWN, argv)


if __name__ == "__main__":
    sys.exit(main())
