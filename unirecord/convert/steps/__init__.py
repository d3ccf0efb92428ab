"""What happens to rows between a source and what is written: chosen, renamed, resized. Neither side knows of it."""
