"""The controller: the one writer of cluster state. In reading order:

`core`                   the decisions
`results`                results of an operation: one per resource
`writes`                 changes of the image as operations on the store
`ledger`                 runs operations one after the other: decision, fenced write, next image
`leadership`             elects the controller
`election_policy`        the rules of elections by the topics' settings, and the count of unclean ones
`topic_operations`, `partition_operations`, `config_operations`, `broker_operations`, `acl_operations`   operations of
the ledger
`acl_nodes`              adopts ACLs that another program wrote to the store
`controller`             the operations, on the broker that is the controller
`gateway`                the way to the active controller from any broker
`member`                 a broker as a member of its cluster: store, registration, image and controller
"""
