"""Reports: one HTML file that says how a run, or a study, went. Nothing here imports JAX."""
