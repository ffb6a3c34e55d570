# SPDX-License-Identifier: Apache-2.0
"""The boundary to runtimes: what they raise, translated once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from opensandbox_server import errors
from opensandbox_server.host.full_disk import explain, is_full
from opensandbox_server.runtimes import base


@contextlib.contextmanager
def faults_of_runtime(otherwise: type[errors.RequestRefused]) -> Iterator[None]:
    """Translate what a runtime raises, keeping the cause."""
    try:
        yield
    except base.InstanceUnknown as fault:
        raise errors.NotRunning(str(fault)) from fault
    except base.WrongState as fault:
        raise errors.NotRunning(str(fault)) from fault
    except base.ImageUnknown as fault:
        raise errors.ImageUnavailable(str(fault)) from fault
    except base.NotSupported as fault:
        raise errors.InvalidParameter(str(fault)) from fault
    except base.RuntimeUnavailable as fault:
        raise errors.RuntimeDown(str(fault)) from fault
    except base.RuntimeFault as fault:
        raise otherwise(str(fault)) from fault
    except OSError as fault:
        if not is_full(fault):
            raise
        raise otherwise(explain(fault)) from fault
