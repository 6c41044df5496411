"""Energies of points: samplers in the plane, and the objective robust to bad samples."""
