"""The exam of samplers, estimators and objectives on targets with exact answers."""
