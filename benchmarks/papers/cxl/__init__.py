"""Context-aware inference on a GPU and CXL near-data processing."""
