"""Energies of images alone: IGEBM and improved contrastive divergence."""
