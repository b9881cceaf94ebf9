"""Pages of the dashboard, one screen a file."""
