"""Alarms: named conditions on the run's own record, each with a test and its evidence."""

from steelyard.monitor.alarms.alarm import Action, Alarm
from steelyard.monitor.alarms.checking import check_alarms
from steelyard.monitor.alarms.facts import EpisodeFacts, StepFacts, read_steps
from steelyard.monitor.alarms.settings import AlarmSettings

__all__ = [
    "Action",
    "Alarm",
    "AlarmSettings",
    "EpisodeFacts",
    "StepFacts",
    "check_alarms",
    "read_steps",
]
