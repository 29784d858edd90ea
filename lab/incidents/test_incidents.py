"""docs/operating.md shows what the incidents print."""

from lab.incidents.page import played, shown, without_figures


async def test_each_incident_prints_what_the_page_shows_of_it() -> None:
    assert without_figures(await played()).strip() == without_figures(shown()).strip()
