"""Your own machine: described from what the system says, measured, shown and changed."""
