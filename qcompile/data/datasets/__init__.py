"""The kinds of data that a user can pass, one module each."""
