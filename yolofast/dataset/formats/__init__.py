"""Labelled images as people have them: one file reads one form, all become the same values, two forms are written."""
