"""KTransformers (SOSP '25): expert deferral, kernels and sockets."""
