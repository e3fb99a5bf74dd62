"""The six instances of the paper's experiments ("Reliable Scale-Free Bandits via Empirical Likelihood", 2026).

The paper's own parameters (its Table 2) are not public. These are ours, chosen so that its phenomena appear; results
should be labelled "our parameters".
"""

from eljax.arms.bandit import Bandit
from eljax.arms.closed_form import exponential, gaussian
from eljax.arms.tabulated import beta


def paper_instances() -> dict[str, Bandit]:
    """The instances by name.

    >>> list(paper_instances())
    ['gaussian', 'exponential', 'beta_easy', 'beta_small_gap', 'beta_easy_unit', 'beta_small_gap_unit']
    >>> paper_instances()["beta_small_gap"].gaps
    array([0. , 2.5])
    """
    return {
        "gaussian": Bandit([gaussian(10, 4), gaussian(8, 4), gaussian(6, 4)]),
        "exponential": Bandit([exponential(10), exponential(7)]),
        "beta_easy": Bandit([beta(3, 2, scale=50), beta(2, 3, scale=50)]),
        "beta_small_gap": Bandit([beta(5, 5, scale=50), beta(4.5, 5.5, scale=50)]),
        "beta_easy_unit": Bandit([beta(3, 2), beta(2, 3)]),
        "beta_small_gap_unit": Bandit([beta(5, 5), beta(4.5, 5.5)]),
    }
