"""Screens and the command line."""
