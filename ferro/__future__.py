"""Switches of how modules convert their parameters, as in torch.__future__.

>>> import ferro
>>> ferro.__future__.set_swap_module_params_on_conversion(True)
>>> ferro.__future__.get_swap_module_params_on_conversion()
True
>>> ferro.__future__.set_swap_module_params_on_conversion(False)
"""

_SWITCHES = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `Module.to` and its like make new parameters (True) or give the old ones new data (False, the default)."""
    _SWITCHES["overwrite"] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether `Module.to` and its like make new parameters."""
    return _SWITCHES["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether `Module.to` and `load_state_dict` exchange the content of parameters by `utils.swap_tensors`.

    The parameters stay the same objects with other data, class and attributes; the default, False, changes data only.
    """
    _SWITCHES["swap"] = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether `Module.to` and `load_state_dict` exchange the content of parameters."""
    return _SWITCHES["swap"]
