"""`headrace top`: a cluster in a full-screen terminal view. In reading order:

`command`    the command
`snapshot`   what the view knows about the cluster, and how it is read
`tables`     columns and rows of each table, as text with colours
`details`    the table behind a row
`screen`     the terminal view: keys, filter, order, refresh
"""
