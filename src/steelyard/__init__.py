"""Steelyard: trains LLM agents from their own trajectories."""
