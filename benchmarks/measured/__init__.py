"""Public measured speeds of real runtimes beside the predictions of `moeopt predict`."""
