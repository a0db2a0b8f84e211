"""The reproduction as Markdown, with pictures."""
