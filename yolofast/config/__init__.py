"""The settings of train, val and predict: pure data, checked when made; flags and files follow from it."""
