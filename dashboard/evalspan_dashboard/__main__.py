"""Entry of `python -m evalspan_dashboard`: the same command line as `evalspan`."""

from evalspan_dashboard.cli import main

main()
