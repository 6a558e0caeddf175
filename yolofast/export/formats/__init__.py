"""The formats: each file writes one and runs it; `extensions.EXPORT_FORMATS` lists them."""
