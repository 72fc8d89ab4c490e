"""The cluster as one immutable image. In reading order:

`core`         the image, its changes, placement of replicas
`codecs`       cluster state as bytes: the JSON of the nodes and of the change list
`loading`      reads the image from the store; `follower` follows it by version
`view`         the current image of this broker, and its subscribers
`membership`   the registration of this broker
"""
