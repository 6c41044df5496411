"""From a configuration to a finished run, and back to its model."""
