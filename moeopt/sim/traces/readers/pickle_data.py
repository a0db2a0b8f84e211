"""Reading data out of a pickle without running it.

A pickle is a program. This machine knows only those of its instructions that build plain data, and
carries them out itself: no module is imported, nothing that the file names is called, no object of
a class gets made. What it does not know ends the reading.
"""

import pickletools
from collections.abc import Callable
from typing import Any

from moeopt.core.errors import InputError
from moeopt.core.wording import shown

MAX_PICKLE_BYTES = 64 * 2**20
"""Longest pickle that is read."""

MAX_INSTRUCTIONS = 2**23
"""Most instructions that are carried out, so that time and memory stay bounded."""

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = {
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT",
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS = {"BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"}
_GETS = {"BINGET", "LONG_BINGET", "GET"}


class Name(str):
    """A module and a name in it, as text: what a pickle wants to be imported."""


class _Mark:
    """Where on the stack the items of a container begin."""


class PickleData:
    """A stack machine that carries out the data instructions of one pickle.

    Parameters
    ----------
    payload
        The pickle.
    calls
        Full name -> function that is called with the arguments found, for the few callables whose
        results are wanted.
    persistent
        Called with the identification of an object that lies outside of the pickle.
    where
        Begins every error message.
    """

    def __init__(
        self,
        payload: bytes,
        calls: dict[str, Callable[..., Any]],
        persistent: Callable[[Any], Any],
        where: str,
    ) -> None:
        self._payload, self._where = payload, where
        self._calls, self._persistent = calls, persistent
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def read(self) -> Any:
        """Return the value.

        Raises
        ------
        InputError
            If the pickle does anything else than building plain data, or is damaged.
        """
        if len(self._payload) > MAX_PICKLE_BYTES:
            raise self._error(f"longer than {MAX_PICKLE_BYTES // 2**20} MiB")
        try:
            for number, (opcode, argument, _) in enumerate(pickletools.genops(self._payload)):
                if number == MAX_INSTRUCTIONS:
                    raise self._error(f"more than {MAX_INSTRUCTIONS} instructions")
                if opcode.name == "STOP":
                    return self._stack.pop()
                self._do(opcode.name, argument)
        except InputError:
            raise
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError):
            pass
        raise self._error("damaged")

    def _do(self, name: str, argument: Any) -> None:
        if name in _LITERALS:
            self._stack.append(argument)
        elif name in _PUTS:
            place = len(self._memo) if name == "MEMOIZE" else int(argument)
            self._memo[place] = self._stack[-1]
        elif name in _GETS:
            self._stack.append(self._memo[int(argument)])
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            self._stack.append(tuple(self._popped(_TUPLES[name])))
        elif hasattr(self, f"_do_{name.lower()}"):
            getattr(self, f"_do_{name.lower()}")(argument)
        else:
            raise self._error(f"refused: instruction {name} is no plain data")

    def _do_proto(self, version: int) -> None:
        if version > 5:
            raise self._error(f"pickle protocol {version} is not known")

    def _do_frame(self, _: int) -> None:
        """Frames only group bytes."""

    def _do_empty_dict(self, _: None) -> None:
        self._stack.append({})

    def _do_empty_list(self, _: None) -> None:
        self._stack.append([])

    def _do_empty_tuple(self, _: None) -> None:
        self._stack.append(())

    def _do_mark(self, _: None) -> None:
        self._stack.append(_Mark())

    def _do_tuple(self, _: None) -> None:
        self._stack.append(tuple(self._since_mark()))

    def _do_append(self, _: None) -> None:
        (item,) = self._popped(1)
        self._top(list).append(item)

    def _do_appends(self, _: None) -> None:
        items = self._since_mark()
        self._top(list).extend(items)

    def _do_setitem(self, _: None) -> None:
        self._set(self._popped(2))

    def _do_setitems(self, _: None) -> None:
        self._set(self._since_mark())

    def _do_global(self, argument: str) -> None:
        self._stack.append(Name(argument.replace(" ", ".", 1)))

    def _do_stack_global(self, _: None) -> None:
        module, name = self._popped(2)
        if type(module) is not str or type(name) is not str:
            raise self._error("damaged")
        self._stack.append(Name(f"{module}.{name}"))

    def _do_reduce(self, _: None) -> None:
        function, arguments = self._popped(2)
        if not isinstance(function, Name) or function not in self._calls:
            named = shown(str(function)) if isinstance(function, Name) else "something unnamed"
            raise self._error(f"refused: it wants to call {named}")
        if not isinstance(arguments, tuple):
            raise self._error("damaged")
        self._stack.append(self._calls[function](*arguments))

    def _do_binpersid(self, _: None) -> None:
        (identification,) = self._popped(1)
        self._stack.append(self._persistent(identification))

    def _set(self, items: list[Any]) -> None:
        target = self._top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (str, int):
                raise self._error("refused: a key is neither text nor an integer")
            target[key] = value

    def _top(self, kind: type) -> Any:
        if type(self._stack[-1]) is not kind:
            raise self._error("damaged")
        return self._stack[-1]

    def _popped(self, count: int) -> list[Any]:
        if len(self._stack) < count:
            raise self._error("damaged")
        items = self._stack[-count:]
        del self._stack[-count:]
        if any(isinstance(item, _Mark) for item in items):
            raise self._error("damaged")
        return items

    def _since_mark(self) -> list[Any]:
        start = next(
            place
            for place in range(len(self._stack) - 1, -2, -1)
            if place < 0 or isinstance(self._stack[place], _Mark)
        )
        if start < 0:
            raise self._error("damaged")
        items = self._stack[start + 1 :]
        del self._stack[start:]
        return items

    def _error(self, reason: str) -> InputError:
        return InputError(f"{self._where}: {reason}")
