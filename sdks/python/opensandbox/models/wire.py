# SPDX-License-Identifier: Apache-2.0
"""What all wire types share: snake_case in Python, camelCase in JSON, and no explicit null."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel


class WireModel(BaseModel):
    """A JSON object of the lifecycle API. Unknown fields are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    def to_wire(self) -> dict[str, Any]:
        """Return the object as JSON values; absent fields are left out, never null."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class StrictWireModel(WireModel):
    """A JSON object that refuses fields it does not know."""

    model_config = ConfigDict(extra="forbid")


def _refuse_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _refuse_numbers(value: object) -> object:
    # A bare number would be taken for seconds since 1970; the wire has RFC 3339 only.
    if not isinstance(value, (str, datetime)):
        raise ValueError("must be an RFC 3339 time")
    return value


def _assume_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


NonBlank = Annotated[str, AfterValidator(_refuse_blank)]
"""A string with something in it besides white space."""

Time = Annotated[datetime, BeforeValidator(_refuse_numbers), AfterValidator(_assume_utc)]
"""An RFC 3339 time; without a zone it is UTC."""
