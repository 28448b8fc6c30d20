"""``python -m minframe_lab``."""

from minframe_lab import main

if __name__ == "__main__":
    main()
