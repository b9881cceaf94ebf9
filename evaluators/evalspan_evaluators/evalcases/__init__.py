"""Evalcases: YAML test cases for agents, as EvalView writes them, run and judged without a server."""
