"""The SVGD thesis's tuning study: its sweeps, their runs and plots."""
