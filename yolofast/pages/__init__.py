"""Pages to look at: values that say what is on a page, and renderers that make one file of it.

Whoever reports something builds a `Page` of elements and never writes HTML, so nothing can be forgotten to be escaped,
and the same content is there as Markdown.
"""
