"""The public program over released numbers; it costs nothing."""
