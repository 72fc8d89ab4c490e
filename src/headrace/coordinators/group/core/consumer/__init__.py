"""Consumer groups (KIP-848). In reading order:

`group`                 one group: what its records say
`heartbeat`             ConsumerGroupHeartbeat: join, stay, change, reconcile, leave
`target`                the subscribed topics and the target assignment
`assignors`             the server-side assignors; `mixed_subscriptions` for members with different topics
`java_order`            the order in which Kafka iterates, where it chooses between equals
`reconciliation`        one step of a member towards its target
`regex`                 regular expressions of subscriptions, in bounded time; `regex_syntax` reads them
`classic_members`       members that still use the classic protocol
`migration`             decides when a classic group becomes a consumer group, and back
`downgrade`             a consumer group becomes a classic one
"""
