"""What all SQL engines share; nothing here imports a driver."""
