"""Features of a broker (KIP-584), as it tells them in its answer to ApiVersions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import kafka.errors
from kafka.protocol.metadata import ApiVersionsRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIRST_WITH_FEATURES: Final = 3


def features_request(api_versions: Mapping[int, tuple[int, int]]) -> Any:
    """Return the request, in the highest version of both sides."""
    _, highest = api_versions.get(ApiVersionsRequest.API_KEY, (0, 0))
    return ApiVersionsRequest(
        version=min(highest, ApiVersionsRequest.max_version),
        client_software_name="kafka-metadata-history",
        client_software_version="0",
    )


def has_features(message: Any) -> bool:
    """Whether a request asks for features, or an answer has them: its version may be too old."""
    return bool(message.API_VERSION >= _FIRST_WITH_FEATURES)


def supported_features(response: Any) -> dict[str, int] | None:
    """Return the highest level of each feature that the broker's software has; None where
    the broker does not say. Raises the library's error of an answer that is one.
    """
    if response.error_code:
        raise kafka.errors.for_code(response.error_code)
    if not has_features(response):
        return None
    return {each.name: each.max_version for each in response.supported_features}


def finalized_features(response: Any) -> dict[str, int] | None:
    """Return the finalized level of each feature; None where the broker does not say."""
    if not has_features(response) or response.finalized_features_epoch < 0:
        return None
    return {each.name: each.max_version_level for each in response.finalized_features}
