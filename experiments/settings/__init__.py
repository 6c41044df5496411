"""Settings that several configurations and studies share."""
