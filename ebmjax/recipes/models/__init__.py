"""Energies of images or points, joint models and latent models."""
