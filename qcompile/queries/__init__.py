"""The questions: schema, factors, families and workload."""
