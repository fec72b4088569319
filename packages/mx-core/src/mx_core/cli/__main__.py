# SPDX-License-Identifier: Apache-2.0
"""`python -m mx_core.cli` is the command `mx`."""

from mx_core.cli import main

if __name__ == "__main__":
    main()
