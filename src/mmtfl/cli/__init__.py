"""The command line `mmtfl`: results on stdout, progress on stderr, exit code 2 for bad input."""
