import subprocess
import sys

import steelyard


def test_every_public_name_is_there():
    for name in steelyard.__all__:
        assert getattr(steelyard, name) is not None


def test_importing_the_core_needs_no_torch():
    code = (
        "import sys; import steelyard, steelyard.cli.main, steelyard.grading, steelyard.monitor; "
        "steelyard.Task; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
