"""The page about moving from CleanRL."""

from interop import pages


def test_the_page_says_what_is_so():
    printed, claimed = pages.run("cleanrl")
    assert printed == claimed
    assert len(claimed) == 3
