"""Entry point of ``python -m confide``, which runs the command ``confide``."""

from confide.cli import main

if __name__ == "__main__":
    main()
