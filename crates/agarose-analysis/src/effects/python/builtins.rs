//! Names that Python defines, and what its functions do.

/// Sorted. From `dir(builtins)` of CPython 3.11 to 3.13, with what IPython adds.
#[rustfmt::skip]
pub(super) const NAMES: &[&str] = &[
    "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "BaseExceptionGroup",
    "BlockingIOError", "BrokenPipeError", "BufferError", "BytesWarning", "ChildProcessError",
    "ConnectionAbortedError", "ConnectionError", "ConnectionRefusedError", "ConnectionResetError",
    "DeprecationWarning", "EOFError", "Ellipsis", "EncodingWarning", "EnvironmentError", "Exception",
    "ExceptionGroup", "False", "FileExistsError", "FileNotFoundError", "FloatingPointError",
    "FutureWarning", "GeneratorExit", "IOError", "ImportError", "ImportWarning", "In", "IndentationError",
    "IndexError", "InterruptedError", "IsADirectoryError", "KeyError", "KeyboardInterrupt", "LookupError",
    "MemoryError", "ModuleNotFoundError", "NameError", "None", "NotADirectoryError", "NotImplemented",
    "NotImplementedError", "OSError", "Out", "OverflowError", "PendingDeprecationWarning",
    "PermissionError", "ProcessLookupError", "PythonFinalizationError", "RecursionError", "ReferenceError",
    "ResourceWarning", "RuntimeError", "RuntimeWarning", "StopAsyncIteration", "StopIteration",
    "SyntaxError", "SyntaxWarning", "SystemError", "SystemExit", "TabError", "TimeoutError", "True",
    "TypeError", "UnboundLocalError", "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError",
    "UnicodeTranslateError", "UnicodeWarning", "UserWarning", "ValueError", "Warning", "WindowsError",
    "ZeroDivisionError", "__annotations__", "__build_class__", "__builtins__", "__debug__", "__doc__",
    "__file__", "__import__", "__loader__", "__name__", "__package__", "__spec__", "abs", "aiter", "all",
    "anext", "any", "ascii", "bin", "bool", "breakpoint", "bytearray", "bytes", "callable", "chr",
    "classmethod", "compile", "complex", "copyright", "credits", "delattr", "dict", "dir", "display",
    "divmod", "enumerate", "eval", "exec", "exit", "filter", "float", "format", "frozenset", "get_ipython",
    "getattr", "globals", "hasattr", "hash", "help", "hex", "id", "input", "int", "isinstance",
    "issubclass", "iter", "len", "license", "list", "locals", "map", "max", "memoryview", "min", "next",
    "object", "oct", "open", "ord", "pow", "print", "property", "quit", "range", "repr", "reversed",
    "round", "set", "setattr", "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple", "type",
    "vars", "zip",
];

pub(super) const TABLE: &str = "
abs ascii bin bool callable chr complex divmod float format hash hex id int isinstance issubclass len oct ord : immutable
pow repr round str bytes range slice type hasattr frozenset memoryview : immutable
all any : immutable consumes
sum min max : element consumes calls
print : immutable consumes
breakpoint help : immutable
input : immutable input
bytearray object super property staticmethod classmethod dir : view
sorted : holds consumes calls
list tuple set dict : holds consumes
enumerate zip reversed iter : iterator consumes
map filter : iterator consumes calls
next : element m0
open : iterator file-read
getattr : element
display : immutable consumes
BaseException Exception ValueError TypeError KeyError IndexError RuntimeError AttributeError : holds
ArithmeticError AssertionError NotImplementedError OSError StopIteration ZeroDivisionError : holds
UserWarning DeprecationWarning FutureWarning Warning FileNotFoundError ImportError : holds
";
