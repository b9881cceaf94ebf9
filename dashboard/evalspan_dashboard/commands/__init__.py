"""Commands of the `evalspan` command line, one module per family."""
