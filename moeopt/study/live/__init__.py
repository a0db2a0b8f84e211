"""A campaign in a browser while it runs: read-only, on the loopback address."""
