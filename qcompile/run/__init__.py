"""The run: the only package that joins a plan with data, budget, noise and ledger."""
