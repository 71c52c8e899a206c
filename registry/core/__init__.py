"""Pure rules of the archive: no file, clock, process or network."""
