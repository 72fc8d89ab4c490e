"""Found by Spark by its name: makes `format("headrace")` work after `pip install headrace[spark]`."""

from headrace.pipelines.datasource import HeadraceDataSource as DefaultSource

__all__ = ["DefaultSource"]
