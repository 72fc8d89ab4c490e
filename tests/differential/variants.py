"""All variants."""

from __future__ import annotations

from tests.differential import admin_edge_cases, admin_variants, data_variants, group_variants, quota_variants
from tests.differential.table import Variant

VARIANTS: list[Variant] = [
    *data_variants.VARIANTS,
    *group_variants.VARIANTS,
    *admin_variants.VARIANTS,
    *admin_edge_cases.VARIANTS,
    *quota_variants.VARIANTS,
]
