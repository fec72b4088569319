# SPDX-License-Identifier: Apache-2.0
"""From image files to record files: list them (`make_list`), then pack them (`pack`)."""

from mx_io.im2rec.listing import ListEntry, make_list, read_list, write_list
from mx_io.im2rec.pack import PackReport, pack

__all__ = ["ListEntry", "PackReport", "make_list", "pack", "read_list", "write_list"]
