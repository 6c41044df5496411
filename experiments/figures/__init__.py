"""Figures and tables of the papers, drawn from the folder of a study."""
