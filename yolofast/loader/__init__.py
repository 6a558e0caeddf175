"""Composition: an order of images, their plans and their pixels joined into batches."""
