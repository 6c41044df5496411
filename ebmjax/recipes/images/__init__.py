"""What models of images share: distances, feature extractors, chain profiles, start laws."""
