"""What people paste of a machine: text of tools -> facts -> a machine by name and its changes."""
