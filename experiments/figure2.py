"""Regret of EL-F and all its competitors against time: mean and median on the paper's six instances (figure 2).

    python -m experiments.figure2

The eleven policies of table 3. Give `--out results/table3` after `experiments.table3` and its results are used, nothing
is simulated again.
"""

import sys
from collections.abc import Sequence

from experiments import curves, table3


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; the exit code is 0, 2 for a bad argument, 130 when interrupted."""
    return curves.main(__doc__, "figure2", tuple(table3.POLICIES), argv)


if __name__ == "__main__":
    sys.exit(main())
