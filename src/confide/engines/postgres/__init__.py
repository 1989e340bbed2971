"""PostgreSQL: statements run where the data lives."""
