"""Objectives that configurations name: one file each, and one table of them."""
