"""Parts that a configuration names: samplers, data, networks, losses."""
