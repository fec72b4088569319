# SPDX-License-Identifier: Apache-2.0
"""What a program for MXNet 1.x uses that is absent, different or deprecated here; the command is `mx migrate`."""

from mx.migrate.findings import Finding, examine, examine_source

__all__ = ["Finding", "examine", "examine_source"]
