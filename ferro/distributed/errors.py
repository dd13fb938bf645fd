"""The exceptions of process groups, which programs catch by name."""


class DistError(RuntimeError):
    """An exchange between processes has failed."""


class DistBackendError(DistError):
    """A backend has failed."""


class DistNetworkError(DistError):
    """The network has failed."""


class DistStoreError(DistError):
    """The store of a group has failed."""


class QueueEmptyError(DistStoreError):
    """The queue of a store is empty."""
