# SPDX-License-Identifier: Apache-2.0
import pytest
from click.testing import CliRunner

from mx_core.cli import cli


@pytest.fixture
def mx(site):
    """Runs `mx` with the plug-ins of `site`; gives (exit status, output)."""

    def run(*arguments):
        result = CliRunner().invoke(cli, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output

    return run
