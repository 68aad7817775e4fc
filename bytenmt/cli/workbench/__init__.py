"""Commands for services and bulk translation."""
