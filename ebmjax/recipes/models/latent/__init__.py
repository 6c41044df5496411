"""The latent-space energy-based prior, with thermodynamic integration."""
