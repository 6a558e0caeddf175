"""Pages as values, and renderers that make one file of them.

Reports build a `Page` of elements and never write HTML. So everything is escaped, and the same content is there as
Markdown.
"""
