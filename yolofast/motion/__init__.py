"""Motion models: where tracked boxes will be in the next frame, learnt from tracks."""
