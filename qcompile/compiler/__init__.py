"""From workload to plan: a tuple of passes, and the searches for better designs."""
