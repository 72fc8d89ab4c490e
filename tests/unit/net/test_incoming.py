"""Memory of clients that have not logged in: for what they send, not for what they announce."""

from __future__ import annotations

from headrace.net.buffers import LARGEST_LOGIN_TOTAL_BYTES, SMALLEST_BYTES, BufferPool
from headrace.net.incoming import Incoming

LOGIN = 4 + 524_288


def receive(incoming: Incoming, count: int, frame: int = LOGIN) -> bool:
    """Receives part of a frame. False if it must wait for memory."""
    while count:
        taken = min(count, len(incoming.room()))
        incoming.end += taken
        count -= taken
        if not incoming.make_room(frame):
            return False
    return True


def test_an_announced_login_gets_memory_only_as_its_bytes_arrive() -> None:
    pool = BufferPool()
    login = Incoming(pool, is_login=True)
    receive(login, 4)
    assert pool.lent_bytes == SMALLEST_BYTES
    receive(login, 100_000)
    assert pool.lent_bytes == 4 * SMALLEST_BYTES
    assert receive(login, LOGIN - 100_004)
    assert login.end - login.start == LOGIN
    login.give_back()
    assert pool.lent_bytes == pool.login_bytes == 0


def test_all_logins_together_have_a_limit_and_wait_for_memory() -> None:
    pool = BufferPool()
    logins = [Incoming(pool, is_login=True) for _ in range(1024)]
    waiting = [login for login in logins if not receive(login, LOGIN - 1)]
    assert 0 < len(logins) - len(waiting) <= LARGEST_LOGIN_TOTAL_BYTES // LOGIN
    assert pool.login_bytes <= LARGEST_LOGIN_TOTAL_BYTES
    assert pool.lent_bytes <= 2 * LARGEST_LOGIN_TOTAL_BYTES + 1024 * SMALLEST_BYTES
    for login in logins:
        if login not in waiting:
            login.give_back()
    assert waiting[0].make_room(LOGIN)


def test_a_client_that_has_logged_in_gets_the_memory_of_its_frame_at_once() -> None:
    pool = BufferPool()
    client = Incoming(pool, is_login=True)
    receive(client, 200_000)
    client.trust()
    assert pool.login_bytes == 0
    client.start = client.end
    assert client.make_room(0)
    assert receive(client, 4, frame=3 << 20)
    assert pool.lent_bytes == 4 << 20
