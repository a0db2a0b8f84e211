"""What the papers say about routing traces, computed: skew, reuse, similarity, hit rates."""
