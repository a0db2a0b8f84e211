"""The reproduction as HTML and Markdown, with pictures."""
