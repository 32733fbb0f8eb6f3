collect_ignore = ["policy_driver.py"]  # runs in the interpreter of Tianshou 1.0
