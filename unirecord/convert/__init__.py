"""Raw data in: sources, and what a conversion needs."""
