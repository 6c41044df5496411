"""Evaluators of latent EBMs alone."""
