"""Entry of `python -m evalspan_dashboard`: the same command line as `evalspan`."""

import gc

gc.set_threshold(50_000, 20, 50)  # what is imported is no garbage: a restarted process is back sooner

from evalspan_dashboard.cli import main  # noqa: E402  the line above is for this import

main()
