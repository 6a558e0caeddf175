"""The formats: each file writes one; `extensions.EXPORT_FORMATS` lists them."""
