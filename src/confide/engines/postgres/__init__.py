"""PostgreSQL: statements run where the data is stored."""
