"""The optimum of one problem, with its certificate."""
