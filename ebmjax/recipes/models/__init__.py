"""Image energies, joint models, latent models and densities in the plane."""
