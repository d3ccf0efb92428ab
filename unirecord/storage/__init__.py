"""Where bytes lie: the only code that changes the file system."""
