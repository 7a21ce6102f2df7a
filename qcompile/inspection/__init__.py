"""What a plan says: as text, as data, and beside another plan."""
