"""The Python API; what users import is listed in the package's own ``__init__``."""
