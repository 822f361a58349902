"""Every probe, by family. A new probe is one entry of a family's table, or one new file here."""

from steelyard.auditing.probes import (
    answer_files,
    answers,
    exits,
    hostile_answers,
    in_process,
    in_process_patching,
    in_process_reading,
    planted_files,
    reward_channel,
    right_work,
    shell_programs,
    trivial,
)
from steelyard.auditing.submission import Probe

PROBES: tuple[Probe, ...] = (
    *trivial.PROBES,
    *answer_files.PROBES,
    *exits.PROBES,
    *planted_files.PROBES,
    *in_process.PROBES,
    *in_process_reading.PROBES,
    *in_process_patching.PROBES,
    *reward_channel.PROBES,
    *shell_programs.PROBES,
    *answers.PROBES,
    *hostile_answers.PROBES,
    *right_work.PROBES,
)

__all__ = ["PROBES"]
