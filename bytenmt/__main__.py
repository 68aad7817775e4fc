"""`python3 -m bytenmt` is the same program as `bytenmt`."""

from bytenmt.cli.main import main

main()
