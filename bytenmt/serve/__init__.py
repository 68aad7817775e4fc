"""Translation as a service: engines that are kept warm, asked by many at once."""
