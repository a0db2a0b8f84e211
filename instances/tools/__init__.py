"""Tools of the instance library, for a checkout: ``python -m instances.tools``."""
