"""Judges: models that give verdicts, with fencing, limits, budget and ledger around every call."""
