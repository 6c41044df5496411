"""Numbers and pictures of a model, during training and afterwards."""
