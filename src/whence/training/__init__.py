"""Training sentiment models on SST, from its files to a saved pipeline."""
