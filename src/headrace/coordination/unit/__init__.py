"""The store of a unit, several broker processes on one host: the embedded store, served over Unix sockets. In reading
order:

`messages`   the messages between the store and the processes of the unit
`server`     the supervisor's side: serves the embedded store
`store`      the process's side: the store on a session with that server
"""
