"""Evaluators of points: the density on a grid of the plane, and samplers side by side."""
