"""`headrace pipeline test`. In reading order:

`flow_tests`      test files: input records, expected output records, the difference
`flow_test_run`   runs one test with a broker of its own
"""
