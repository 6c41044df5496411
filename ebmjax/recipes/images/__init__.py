"""Parts that image models share: their distances, chain profiles, start laws."""
