"""Golden: captured traffic of many libraries, what really happened in it, and the runs we expect of it."""
