"""Attacks a grader from the outside, through the same door as an agent; needs no torch."""
