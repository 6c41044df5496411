"""Parts that every family shares: fields, command line, run folder, launch, kept states, plots."""
