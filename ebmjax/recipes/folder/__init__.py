"""A run's folder: its files, its lock, its reader."""
