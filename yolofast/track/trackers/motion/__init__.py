"""Where tracks will be: filters and learned models, behind one interface (`model.py`)."""
