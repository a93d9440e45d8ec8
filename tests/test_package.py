"""What a service gets that installs the package."""

from importlib import resources

import pytest


@pytest.mark.parametrize("package", ["queue_core", "console"])
def test_type_checkers_of_others_may_read_our_types(package):
    assert (resources.files(package) / "py.typed").is_file()
