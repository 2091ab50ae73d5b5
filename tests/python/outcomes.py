"""A pytest plugin: writes each test's id and outcome, one each line, to the file that OUTCOMES names."""

import os

_outcomes = {}


def pytest_runtest_logreport(report):
    # A test is what its call was, unless it failed or was skipped before or after that.
    if report.when == "call" or report.outcome != "passed":
        outcome = "xfailed" if hasattr(report, "wasxfail") and report.outcome == "skipped" else report.outcome
        _outcomes[report.nodeid] = outcome


def pytest_sessionfinish():
    with open(os.environ["OUTCOMES"], "w", encoding="utf-8") as file:
        for name, outcome in sorted(_outcomes.items()):
            file.write(f"{name}\t{outcome}\n")
