# SPDX-License-Identifier: Apache-2.0
"""Lists come in pages."""

from typing import Self

from opensandbox.models.wire import WireModel


class PaginationInfo(WireModel):
    """Which page this is and how many there are."""

    page: int
    page_size: int
    total_items: int
    total_pages: int
    has_next_page: bool

    @classmethod
    def of(cls, *, page: int, page_size: int, total_items: int) -> Self:
        """Work out the rest from the page asked for and the number of items in all."""
        total_pages = -(-total_items // page_size)
        return cls(
            page=page,
            page_size=page_size,
            total_items=total_items,
            total_pages=total_pages,
            has_next_page=page < total_pages,
        )
