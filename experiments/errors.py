"""Errors that are the user's to mend: run.py prints them as one paragraph, no traceback."""


class ConfigError(ValueError):
    """A field of the configuration is unknown, of the wrong type or out of range."""


class WorkdirError(RuntimeError):
    """The run's folder cannot be used."""
