"""What is asked: schema, factors, families and workload."""
