"""A plan as text, as data, and compared with another plan."""
