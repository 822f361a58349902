"""Verifiers that nobody here wrote, as tasks for the audit."""

from audit_real_targets.codefix import codefix_jobs
from audit_real_targets.gym import gym_jobs
from audit_real_targets.humaneval import humaneval_jobs
from audit_real_targets.job import Job

__all__ = ["Job", "codefix_jobs", "gym_jobs", "humaneval_jobs"]
