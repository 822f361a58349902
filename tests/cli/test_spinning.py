"""OpenMP's workers spin briefly, so that another process on the same cores cannot stop a run."""

import os
import subprocess
import sys

import pytest

from steelyard.models.threads import _openmp

pytestmark = pytest.mark.skipif(_openmp() is None, reason="torch has another OpenMP here")


@pytest.mark.parametrize(("given", "taken"), [(None, "10000"), ("77", "77")])
def test_openmp_takes_the_spin_count_of_the_command_unless_the_user_gave_one(given, taken):
    environment = {k: v for k, v in os.environ.items() if k != "GOMP_SPINCOUNT"}
    environment |= {"OMP_DISPLAY_ENV": "verbose"} | (
        {} if given is None else {"GOMP_SPINCOUNT": given}
    )
    done = subprocess.run(
        [sys.executable, "-c", "import steelyard.cli.main, torch"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"GOMP_SPINCOUNT = '{taken}'" in done.stderr
