"""How many bits each expert's weights get under a budget (context-aware CXL-NDP 4.2)."""
