"""The public dataset: its face, position, resume state and shared epoch."""
