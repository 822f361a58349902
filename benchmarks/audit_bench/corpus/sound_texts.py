"""Sound."""
from .case import Case
CASES: tuple[Case, ...] = ()
