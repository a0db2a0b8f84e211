"""Other people's files: importers of traces."""
