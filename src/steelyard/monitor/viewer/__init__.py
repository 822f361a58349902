"""The viewer: a web app on the loopback interface that draws the views of one or more runs."""

from steelyard.monitor.viewer.app import application
from steelyard.monitor.viewer.runs import Runs

__all__ = ["Runs", "application"]
