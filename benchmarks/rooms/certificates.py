"""Names of room `certificates` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.certificates.checked": ("proven_bound", "read_certificate"),
        "moeopt.certificates.certificate": ("Model", "RefusedError", "read", "verify"),
        "moeopt.certificates.emit": ("proven",),
        "moeopt.certificates.forms": ("best_certificate", "forms"),
        "moeopt.certificates.model": ("form_of", "neutral_model"),
    }
)
