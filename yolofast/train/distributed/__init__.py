"""Several processes that train one model: they start, meet, average and stop together."""
