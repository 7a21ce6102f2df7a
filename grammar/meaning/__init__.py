"""From syntax tree to workload."""
