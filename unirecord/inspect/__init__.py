"""Looking at datasets as they lie on disk: describe, verify, repair, compare, report, and pages in a browser."""
