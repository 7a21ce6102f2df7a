"""The account of a dataset."""
