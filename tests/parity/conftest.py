# run in the interpreter of Tianshou 1.0
collect_ignore = ["collector_driver.py", "env_driver.py", "trainer_driver.py"]
