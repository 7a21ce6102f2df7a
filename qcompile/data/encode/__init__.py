"""From values to cells, and which rows count."""
