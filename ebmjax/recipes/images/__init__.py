"""Parts that image models share: distances, feature extractors, chain profiles, start laws."""
