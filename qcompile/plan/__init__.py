"""The plan: frozen data that says what will be measured, how well, and at which share of the budget."""
