"""Statistics and views of a run, read from its record; never touches training."""

from steelyard.monitor.statistics import (
    clustered_standard_error,
    mean_over_tasks,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)
from steelyard.monitor.summary import before_and_after, summary
from steelyard.monitor.views import VIEWS, view

__all__ = [
    "VIEWS",
    "before_and_after",
    "clustered_standard_error",
    "mean_over_tasks",
    "pass_at_k",
    "pass_hat_k",
    "summary",
    "view",
    "wilson_interval",
]
