"""From decoded predictions to what is reported: suppression, matching, metrics, tables and pictures."""
