"""The same scripted environments in the vector environments, collectors and trainers of Tianshou 1.0 and of rlfast."""

import pytest

from parity.peer import answers, needs_tianshou

pytestmark = needs_tianshou
STOPPED = "off-policy, stopped within training"


@pytest.mark.parametrize(("driver", "cases"), [("collector", 5), ("env", 6), ("trainer", 7)])
def test_both_answer_the_same(driver, cases):
    theirs, ours = (answers(f"{driver}_driver.py", library) for library in ("tianshou", "rlfast"))
    if driver == "trainer":  # rlfast tells of the last test as well
        for run in (ours[STOPPED], theirs[STOPPED]):
            run["diary"] = [entry for entry in run["diary"] if entry != ["best"]]
    assert len(ours) == len(theirs) == cases
    for name in ours if isinstance(ours, dict) else range(cases):
        assert ours[name] == theirs[name], name
