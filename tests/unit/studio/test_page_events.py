import asyncio
import json

from unitail.studio import page_events
from unitail.studio.page_events import Hub


def test_all_who_listen_hear_the_news_from_any_thread() -> None:
    hub = Hub()

    async def one() -> list[str]:
        return [news async for news in hub.listen("event: hello\ndata: 1\n")]

    async def run() -> list[list[str]]:
        listeners = [asyncio.create_task(one()) for _ in range(2)]
        while len(hub._listeners) < 2:
            await asyncio.sleep(0)
        await asyncio.to_thread(hub.publish, "labels", {"a": "é\n"})
        await asyncio.to_thread(hub.close)
        return await asyncio.gather(*listeners)

    first, second = asyncio.run(run())
    assert first == second
    assert first[0].endswith("event: hello\ndata: 1\n\n")
    name, data = first[1].strip().split("\n")
    assert name == "event: labels"
    assert json.loads(data.removeprefix("data: ")) == {"a": "é\n"}
    assert len(hub._listeners) == 0


def test_a_page_that_is_too_slow_must_begin_anew() -> None:
    hub = Hub()

    async def run() -> list[str]:
        listener = hub.listen()
        heard = [await anext(listener)]
        for number in range(page_events.MAX_WAITING + 1):
            hub.publish("x", number)
        await asyncio.sleep(0)
        heard += [news async for news in listener]
        return heard

    assert len(asyncio.run(run())) == 1
    assert len(hub._listeners) == 0
