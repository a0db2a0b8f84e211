"""The gap study as one HTML file: what is shown, its figures, its template, and writing it."""
