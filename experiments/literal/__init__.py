"""Parts as a paper prints them, errors included, named as FILE.py:FUNCTION."""
