"""Fields, their declarations and the command line; imports no JAX."""
