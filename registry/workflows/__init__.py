"""One use case a file. Workflows take ports and return records; they do not know each other."""
