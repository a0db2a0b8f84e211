"""Names of room `certificates` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.certificates.certificate as certificate": (
            "Box",
            "Model",
            "RefusedError",
            "Steps",
            "check_parts",
            "sides",
            "verify",
        ),
        "moeopt.certificates.emit as emit": ("certify", "proven"),
        "moeopt.certificates.forms as forms": ("proven_by_any",),
        "moeopt.certificates.lemmas": ("LEMMAS",),
        "moeopt.certificates.lemmas.layout": ("Packing",),
        "moeopt.certificates.model": ("form_of", "neutral_model"),
    }
)
