"""placement: which experts live on the GPU for good, and which are computed elsewhere."""
