"""The report: claims, tables and curves as Markdown, HTML and PNG."""
