"""The bytes of the format: layouts, schema, values, pages; pure, no files."""
