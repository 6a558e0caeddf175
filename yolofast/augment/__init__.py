"""Random draws as data (`plan`), what they do to boxes (`labels`), and what they do to pixels (three renderers)."""
