"""The errors that the project raises on purpose, each with the exit code the command line gives."""


class MoeoptError(Exception):
    """Base of every error that is meant for a user's eyes."""

    exit_code = 1


class InputError(MoeoptError):
    """A file, field or option that cannot be used; the message is one line that says why."""

    exit_code = 2


class ModelMismatchError(MoeoptError):
    """A method's answer and the checker disagree: a bug in a model, never a result."""

    exit_code = 5
