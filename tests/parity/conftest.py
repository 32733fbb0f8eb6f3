collect_ignore = ["collector_driver.py", "policy_driver.py"]  # runs in the interpreter of Tianshou 1.0
