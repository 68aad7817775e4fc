"""`python3 -m bytenmt` is the same program as `bytenmt`."""

from bytenmt.cli.main import main

if __name__ == "__main__":  # children of a server import it, too
    main()
