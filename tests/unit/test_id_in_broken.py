"""An id is read out of broken JSON only where it can be no other."""

from __future__ import annotations

from gateway.jsonrpc.response import id_in_broken
from tests.each import each


@each(
    ("raw", "id"),
    [
        (b'{"id":"c1","result":NaN}', "c1"),
        (b'{"id":"c1","result":"a\tline\nbreak"}', "c1"),
        (b'{"id":"c1","result":"\xff"}', "c1"),
        (b' {"result": {"id": "c2", "of": ["id", {"id": 3}]}, "id" : 12 ,}\r\n', "12"),
        (b'{"id":c1,"result":1}', "c1"),
        (b'{"id":"c1","result":"id","error":"\\"id\\":"}', "c1"),
        (b'{"id":1.0,}', "1.0"),
        (b'{"result":{"id":"c1"},}', None),
        (b'{"result":"c1","error":"id",}', None),
        (b'{"id":"c1","id":"c1",}', None),
        (b'{"id":"c1","result":"he said "id":"c2"","id":"c2"}', None),
        (b'{"\\u0069d":"c1",}', None),
        (b'{"id":"c1","\\u0069d":"c2",}', None),
        (b'{"id":"\\u00631",}', None),
        (b'{"id":null,}', None),
        (b'{"id":"",}', None),
        (b'{"id":["c1"],}', None),
        (b'{"id":}', None),
        (b'[{"id":"c1"},]', None),
        (b'{"id":"c1"}{"id":"c2"}', None),
        (b'{"id":"c1"}}', None),
        (b'{"id":"c1","result":[1,2', None),
        (b'{"id":"c1","result":"no end}', None),
        (b'{"id":"c1","result":"no end\\"}', None),
        (b'Warning: {"id":"c1"}', "c1"),
        (b'\xef\xbb\xbf{"id":"c1"}\0\n', "c1"),
        (b'"a {"id":"c1"}', None),
        (b"", None),
        (b"id", None),
        (b'{"id":"c1","result":[' + b"NaN," * 10_000 + b"]}", "c1"),
        (b'{"id":"c1","result":' + b"[" * 1900 + b"]" * 1900 + b",}", "c1"),
        (b'{"id":"c1","result":' + b"[" * 3000 + b"]" * 3000 + b",}", None),
        (b'{"id":"c1","result":"' + b"x" * 65536 + b'",}', None),
    ],
)
def test_the_id_of_a_broken_message_is_found_where_it_is_certain(raw: bytes, id: str | None) -> None:
    assert id_in_broken(raw) == id
